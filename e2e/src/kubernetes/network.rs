//! Networks of namespaces: each region is a bridge with a router, each node a namespace on it, regions are joined by links.
//!
//! N1: nothing of a region reaches the outside world, and the machine's own packet rules and forwarding stay untouched.
//! N2: what is made here is named `hel-…` or lies in a namespace named so, which is how `down` finds it.

use super::layout::{Layout, Node};
use crate::process;
use anyhow::{Context, Result, bail};

/// Addresses of all regions and links; those of regions that are down must not leave by the machine's uplink.
const GUARD: &str = "10.96.0.0/12";
/// Marks our guard route.
const GUARD_METRIC: &str = "9017";
/// Where the ip program keeps its namespaces; a mount point from the first one on.
const NAMESPACES: &str = "/run/netns";
/// Interface names longer than this are cut by nobody but refused by the kernel.
const NAME_LIMIT: usize = 15;

fn ip(namespace: Option<&str>, arguments: &[&str]) -> Result<String> {
    let mut all = Vec::new();
    if let Some(namespace) = namespace {
        all.extend(["-n", namespace]);
    }
    all.extend(arguments);
    process::run("ip", all)
}

/// `ip` with its arguments in one text.
fn ip_words(namespace: Option<&str>, words: &str) -> Result<String> {
    ip(namespace, &words.split_whitespace().collect::<Vec<_>>())
}

/// Names of all network namespaces.
pub fn namespaces() -> Result<Vec<String>> {
    let list = process::run("ip", ["netns", "list"])?;
    Ok(list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(String::from)
        .collect())
}

/// Whether the machine already routes a region's addresses somewhere, that is, whether its number is taken.
pub fn is_routed(layout: &Layout) -> Result<bool> {
    let routes = process::run("ip", ["route", "show", "exact", &layout.cidr()])?;
    Ok(!routes.trim().is_empty())
}

fn make_namespace(name: &str) -> Result<()> {
    ip_words(None, &format!("netns add {name}"))?;
    ip_words(Some(name), "link set lo up")?;
    // `all` too, because an address that is added later takes it from there
    let settings = [
        ("net/ipv4/ip_forward", 1),
        ("net/ipv6/conf/all/disable_ipv6", 1),
        ("net/ipv4/conf/all/rp_filter", 0),
        ("net/ipv4/conf/default/rp_filter", 0),
    ];
    let script: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("[ ! -e /proc/sys/{key} ] || echo {value} > /proc/sys/{key}"))
        .collect();
    process::run(
        "nsenter",
        [
            &format!("--net=/run/netns/{name}"),
            "sh",
            "-ec",
            &script.join("; "),
        ],
    )
    .with_context(|| format!("set up namespace {name}"))?;
    Ok(())
}

/// Makes a region's network; what is there already stays.
pub fn up(layout: &Layout, others: &[Layout]) -> Result<()> {
    ip_words(
        None,
        &format!("route replace unreachable {GUARD} metric {GUARD_METRIC}"),
    )?;
    let have = namespaces()?;
    let ours = layout.namespace();
    if !have.contains(&ours) {
        make_router(layout)?;
    }
    for node in layout.nodes() {
        if !have.contains(&layout.node_namespace(&node)) {
            make_node(layout, &node)?;
        }
    }
    for other in others {
        if have.contains(&other.namespace()) {
            make_link(layout, other)?;
        }
    }
    Ok(())
}

fn make_router(layout: &Layout) -> Result<()> {
    let namespace = layout.namespace();
    let (uplink, inner, outer) = (layout.uplink(), layout.uplink_ip(), layout.host_ip());
    if uplink.len() > NAME_LIMIT {
        bail!("interface name {uplink} is too long");
    }
    make_namespace(&namespace)?;
    let inside = |words: &str| ip_words(Some(&namespace), words);
    inside("link add br0 type bridge")?;
    inside(&format!(
        "addr add {}/24 dev br0",
        layout.control_plane_ip()
    ))?;
    inside("link set br0 up")?;
    inside("route add unreachable default metric 9000")?;
    ip_words(
        None,
        &format!("link add {uplink} type veth peer name host0 netns {namespace}"),
    )?;
    ip_words(None, &format!("addr add {outer}/30 dev {uplink}"))?;
    ip_words(None, &format!("link set {uplink} up"))?;
    inside(&format!("addr add {inner}/30 dev host0"))?;
    inside("link set host0 up")?;
    ip_words(
        None,
        &format!("route add {} via {inner} dev {uplink}", layout.cidr()),
    )?;
    Ok(())
}

fn make_node(layout: &Layout, node: &Node) -> Result<()> {
    let (router, namespace, port) = (
        layout.namespace(),
        layout.node_namespace(node),
        format!("node-{}", node.short),
    );
    make_namespace(&namespace)?;
    ip_words(
        Some(&router),
        &format!("link add {port} type veth peer name eth0 netns {namespace}"),
    )?;
    ip_words(Some(&router), &format!("link set {port} master br0 up"))?;
    ip_words(
        Some(&namespace),
        &format!("addr add {}/24 dev eth0", layout.node_ip(node)),
    )?;
    ip_words(Some(&namespace), "link set eth0 up")?;
    ip_words(
        Some(&namespace),
        &format!("route add default via {}", layout.control_plane_ip()),
    )?;
    for other in layout.nodes() {
        if other.number != node.number {
            let route = format!(
                "route replace {} via {}",
                layout.node_pods(&other),
                layout.node_ip(&other)
            );
            ip_words(Some(&namespace), &route)?;
        }
    }
    let route = format!(
        "route replace {} via {}",
        layout.node_pods(node),
        layout.node_ip(node)
    );
    ip_words(Some(&router), &route)?;
    Ok(())
}

fn make_link(a: &Layout, b: &Layout) -> Result<()> {
    let (to_b, to_a) = (a.link_to(b), b.link_to(a));
    if ip(Some(&a.namespace()), &["link", "show", &to_b]).is_ok() {
        return Ok(());
    }
    let (a_ip, b_ip) = a.link_ips(b);
    ip_words(
        Some(&a.namespace()),
        &format!(
            "link add {to_b} type veth peer name {to_a} netns {}",
            b.namespace()
        ),
    )?;
    ip_words(
        Some(&a.namespace()),
        &format!("addr add {a_ip}/30 dev {to_b}"),
    )?;
    ip_words(
        Some(&b.namespace()),
        &format!("addr add {b_ip}/30 dev {to_a}"),
    )?;
    set_link(a, b, true)
}

/// Cuts (`false`) or mends (`true`) the link of two regions.
pub fn set_link(a: &Layout, b: &Layout, up: bool) -> Result<()> {
    let state = if up { "up" } else { "down" };
    ip_words(
        Some(&a.namespace()),
        &format!("link set {} {state}", a.link_to(b)),
    )?;
    ip_words(
        Some(&b.namespace()),
        &format!("link set {} {state}", b.link_to(a)),
    )?;
    if up {
        // the routes went with the link
        let (a_ip, b_ip) = a.link_ips(b);
        ip_words(
            Some(&a.namespace()),
            &format!("route replace {} via {b_ip}", b.cidr()),
        )?;
        ip_words(
            Some(&b.namespace()),
            &format!("route replace {} via {a_ip}", a.cidr()),
        )?;
    }
    Ok(())
}

/// Removes a region's namespaces and its interface on the machine, whatever of them is there.
pub fn down(region: &str) -> Result<()> {
    remove_interface(&format!("hel-{region}"))?;
    let (router, nodes) = (format!("hel-{region}"), format!("hel-{region}."));
    for namespace in namespaces()? {
        if namespace == router || namespace.starts_with(&nodes) {
            ip_words(None, &format!("netns del {namespace}"))?;
        }
    }
    Ok(())
}

/// Removes what has lost its region: every namespace and interface of ours, and the guard route.
pub fn down_all() -> Result<()> {
    for namespace in namespaces()? {
        if namespace.starts_with("hel-") {
            ip_words(None, &format!("netns del {namespace}"))?;
        }
    }
    for interface in interfaces()? {
        if interface.starts_with("hel-") {
            remove_interface(&interface)?;
        }
    }
    if namespaces()?.is_empty() && is_mount_point(NAMESPACES)? {
        process::run("umount", [NAMESPACES])?;
        std::fs::remove_dir(NAMESPACES).context("remove the folder of namespaces")?;
    }
    let guard = format!("unreachable {GUARD} metric {GUARD_METRIC}");
    let there = process::run("ip", ["route", "show", "exact", GUARD])?;
    if there.lines().any(|line| line.contains(GUARD_METRIC)) {
        ip_words(None, &format!("route del {guard}"))?;
    }
    Ok(())
}

/// Names of the machine's interfaces.
pub fn interfaces() -> Result<Vec<String>> {
    let list = process::run("ip", ["-brief", "link"])?;
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(names
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .collect())
}

fn is_mount_point(path: &str) -> Result<bool> {
    let table = std::fs::read_to_string("/proc/self/mounts").context("read the mount table")?;
    Ok(table
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(path)))
}

fn remove_interface(name: &str) -> Result<()> {
    if interfaces()?.iter().any(|interface| interface == name) {
        ip_words(None, &format!("link del {name}"))?;
    }
    Ok(())
}
