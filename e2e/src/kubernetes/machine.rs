//! What the machine must offer: root, cgroups of version 1 and some Debian packages, which are installed when missing.

use crate::process;
use crate::progress::Step;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// A program (or file) that is needed and the Debian package that brings it.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/bin/containerd", "containerd"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("/usr/sbin/nft", "nftables"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/sbin/conntrack", "conntrack"),
    ("/bin/busybox", "busybox-static"),
    ("/usr/sbin/mkfs.xfs", "xfsprogs"),
    ("/usr/bin/socat", "socat"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/bin/pkill", "procps"),
    ("/usr/bin/nsenter", "util-linux"),
    ("/usr/sbin/losetup", "mount"),
];

/// Checks everything a local Kubernetes needs and installs what is missing.
pub fn prepare() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "a local Kubernetes needs root (namespaces, mounts, cgroups): run this as root or with sudo, \
             or use a cluster of your own with --context NAME"
        );
    }
    if !Path::new("/sys/fs/cgroup/pids").is_dir() {
        bail!(
            "this machine has no cgroups of version 1 (/sys/fs/cgroup/pids is missing), which the local Kubernetes is \
             built on; use a cluster of your own instead, for example `kind create cluster` and --context kind-kind"
        );
    }
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(file, _)| !present(file))
        .map(|(_, package)| *package)
        .collect();
    install(&missing)
}

/// Installs Debian packages, saying so; does nothing when the list is empty.
pub fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !process::succeeds("apt-get", ["--version"]) {
        bail!(
            "missing programs; they come with these Debian packages, please install what matches here: {list}"
        );
    }
    let step = Step::begin(&format!("installing Debian packages: {list}"));
    let environment = [("DEBIAN_FRONTEND", "noninteractive")];
    let apt = |arguments: &[&str]| {
        let mut command = process::command("apt-get", arguments);
        command.envs(environment);
        process::finish(command, None)
    };
    apt(&["-qq", "update"]).context("fetch Debian's package lists")?;
    let mut arguments = vec!["-qq", "-y", "--no-install-recommends", "install"];
    arguments.extend(packages);
    apt(&arguments).with_context(|| format!("install {list}"))?;
    step.done();
    Ok(())
}

fn present(file: &str) -> bool {
    let path = Path::new(file);
    // /bin and /usr/bin, /sbin and /usr/sbin may or may not be one folder
    path.exists()
        || path.file_name().is_some_and(|name| {
            !file.contains("/cni/")
                && [
                    "/bin",
                    "/sbin",
                    "/usr/bin",
                    "/usr/sbin",
                    "/usr/local/bin",
                    "/usr/local/sbin",
                ]
                .iter()
                .any(|folder| Path::new(folder).join(name).exists())
        })
}
