//! What the kernel says about the server's process.

use anyhow::{Context, Result};

/// Clock ticks a second in `/proc/PID/stat`; Linux fixes it for user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time and memory of a process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all its threads, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Resident memory in MiB.
    pub(crate) rss_mib: f64,
}

/// Read the usage of a process.
pub(crate) fn usage(pid: u32) -> Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("read the CPU time of process {pid}"))?;
    // the name in brackets may hold spaces: fields are counted behind it
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .context("/proc/PID/stat")?
        .1
        .split_whitespace()
        .collect();
    let ticks =
        |index: usize| -> Result<f64> { Ok(fields.get(index).context("/proc/PID/stat")?.parse()?) };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rss = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|text| text.split_whitespace().next());
    let rss_kib: f64 = rss.context("VmRSS")?.parse()?;
    Ok(Usage {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        rss_mib: rss_kib / 1024.0,
    })
}

/// The machine in one line: processor, cores, memory.
pub(crate) fn machine() -> Result<String> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|line| line.split_once(':'));
    let cores = cpu
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kib: f64 = memory
        .split_whitespace()
        .nth(1)
        .context("/proc/meminfo")?
        .parse()?;
    Ok(format!(
        "{}, {cores} cores, {:.0} GiB",
        model.map_or("unknown processor", |(_, name)| name.trim()),
        kib / 1024.0 / 1024.0
    ))
}

/// Keep this process on some cores.
pub(crate) fn pin(cores: &[usize]) -> Result<()> {
    let mut set = nix::sched::CpuSet::new();
    for core in cores {
        set.set(*core).with_context(|| format!("core {core}"))?;
    }
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).context("pin to cores")
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_own_usage_can_be_read() {
        let usage = super::usage(std::process::id()).unwrap();
        assert!(
            usage.rss_mib > 1.0 && usage.cpu_seconds < 1000.0,
            "{usage:?}"
        );
        assert!(super::machine().unwrap().contains("cores"));
    }
}
