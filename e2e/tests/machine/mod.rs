//! What the tests on a local Kubernetes share: when they can run, and what a machine looks like before and after.

use helenus_e2e::process;
use std::collections::BTreeSet;
use std::path::Path;

/// Whether this machine can hold a local Kubernetes; says why not.
///
/// Without root there is nothing to test with. `cargo xtask test` says so too, and CI runs as root.
pub(crate) fn can_hold_kubernetes() -> bool {
    if !process::run("id", ["-u"]).is_ok_and(|id| id.trim() == "0") {
        eprintln!("SKIPPED: tests on a local Kubernetes need root");
        return false;
    }
    if !Path::new("/sys/fs/cgroup/pids").is_dir() {
        eprintln!("SKIPPED: this machine has no cgroups of version 1");
        return false;
    }
    true
}

/// What must be the same before a region came up and after it went down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Traces(BTreeSet<String>);

impl Traces {
    /// Looks at the machine. Traces of other regions are told apart by `region`.
    pub(crate) fn of(region: &str) -> Self {
        let mut all = BTreeSet::new();
        let mut list = |kind: &str, program: &str, arguments: &[&str]| {
            let text = process::run(program, arguments).unwrap();
            all.extend(
                text.lines()
                    .map(|line| format!("{kind}: {}", line.trim()))
                    .filter(|line| line.contains(region)),
            );
        };
        list("namespace", "ip", &["netns", "list"]);
        list("interface", "ip", &["-brief", "link"]);
        list("route", "ip", &["route"]);
        list(
            "loop device",
            "losetup",
            &["-l", "-n", "-O", "NAME,BACK-FILE"],
        );
        list("process", "ps", &["-eo", "pid,args", "-ww"]);
        list(
            "cgroup",
            "find",
            &["/sys/fs/cgroup", "-type", "d", "-path", "*helenus*"],
        );
        list("mount", "cat", &["/proc/self/mounts"]);
        list(
            "file",
            "find",
            &[
                &helenus_e2e::kubernetes::programs::home()
                    .unwrap()
                    .display()
                    .to_string(),
                "-maxdepth",
                "2",
            ],
        );
        Self(all)
    }

    /// Nothing at all.
    pub(crate) fn none() -> Self {
        Self(BTreeSet::new())
    }
}
