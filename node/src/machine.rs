//! Facts of the machine or container that the node runs in.

#[expect(
    clippy::disallowed_methods,
    reason = "facts of the machine are read before any seam exists"
)]
fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::fs::File::open(path).ok()?, &mut text).ok()?;
    Some(text)
}

/// Memory that this process may use, in bytes: the cgroup's limit, or the machine's memory.
pub(crate) fn memory_limit_bytes() -> u64 {
    let machine = read("/proc/meminfo")
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(4 << 30, |kib| kib << 10);
    [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .filter_map(|path| read(path)?.trim().parse::<u64>().ok())
    .fold(machine, u64::min)
}

/// Memory that this process holds, in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = read("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}
