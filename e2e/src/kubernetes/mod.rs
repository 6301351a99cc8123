//! A real Kubernetes 1.34 on this one machine, without Docker: apiserver, scheduler, kubelets, containerd, volumes, DNS.
//!
//! A *region* is one Kubernetes. Its control plane and each of its nodes live in boxes (see [`boxes`]) joined by
//! networks (see [`network`]). Several regions run side by side and reach each other's pods.
//!
//! K1: everything of a region lies in its folder, its boxes, its cgroups and what is named `hel-…` in the network.
//! K2: `down` leaves nothing of it behind, also after an `up` that was cut short.

pub mod access;
pub mod base_images;
pub mod box_init;
pub mod boxes;
pub mod certificates;
pub mod cgroup;
pub mod command;
pub mod control_plane;
pub mod forward;
pub mod layout;
pub mod machine;
pub mod network;
pub mod node_agent;
pub mod programs;
pub mod state;

use crate::paths;
use crate::progress::{self, Look, Step};
use access::Access;
use anyhow::{Context, Result, anyhow, bail};
use boxes::Box;
use certificates::Certificates;
use layout::{Layout, Node};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How a region is made. `Settings::default()` has one node in each of three zones.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Zones, by their last part.
    pub zones: Vec<String>,
    /// Kubernetes nodes in each zone.
    pub nodes_per_zone: u8,
    /// DNS domain of the cluster.
    pub domain: String,
}

impl Default for Settings {
    fn default() -> Self {
        let zones = ["a", "b", "c"].map(String::from).to_vec();
        Self {
            zones,
            nodes_per_zone: 1,
            domain: "cluster.local".into(),
        }
    }
}

/// One local Kubernetes.
#[derive(Debug, Clone)]
pub struct Region {
    layout: Layout,
    folder: PathBuf,
}

impl Region {
    /// Brings a region up, or what is missing of it. A region that exists keeps the settings it was made with.
    pub fn up(name: &str, settings: &Settings) -> Result<Self> {
        machine::prepare()?;
        let _turn = state::lock()?;
        programs::ensure_built()?;
        base_images::ensure()?;
        let step = Step::begin(&format!("local Kubernetes {name}"));
        let region = Self::remember(name, settings)?;
        region.start()?;
        step.done();
        Ok(region)
    }

    /// A region that was brought up before.
    pub fn open(name: &str) -> Result<Self> {
        let layout = state::load(name)?.with_context(|| {
            format!("there is no local Kubernetes {name}; bring it up with `cargo xtask up` or `cargo xtask kubernetes up {name}`")
        })?;
        Ok(Self {
            folder: state::folder(name)?,
            layout,
        })
    }

    fn remember(name: &str, settings: &Settings) -> Result<Self> {
        if let Some(layout) = state::load(name)? {
            return Ok(Self {
                folder: state::folder(name)?,
                layout,
            });
        }
        let taken: Vec<u8> = state::others(name)?
            .iter()
            .map(|other| other.index)
            .collect();
        let make = |index| Layout {
            name: name.to_owned(),
            index,
            zones: settings.zones.clone(),
            nodes_per_zone: settings.nodes_per_zone,
            domain: settings.domain.clone(),
        };
        for index in 1..=99 {
            let layout = make(index);
            layout.check()?;
            if !taken.contains(&index) && !network::is_routed(&layout)? {
                state::save(&layout)?;
                return Ok(Self {
                    folder: state::folder(name)?,
                    layout,
                });
            }
        }
        bail!("all 99 numbers of regions are taken on this machine")
    }

    fn start(&self) -> Result<()> {
        let keys = Certificates::ensure(&self.layout, &self.folder)?;
        Box::make_mount_points(node_agent::PRIVATE)?;
        network::up(&self.layout, &state::others(&self.layout.name)?)?;
        let nodes = self.layout.nodes();
        thread::scope(|scope| {
            let starting: Vec<_> = nodes
                .iter()
                .map(|node| scope.spawn(move || node_agent::start(self, node)))
                .collect();
            control_plane::start_apiserver(self, &keys)?;
            control_plane::start_rest(self, &keys)?;
            starting.into_iter().try_for_each(|node| {
                node.join()
                    .map_err(|_| anyhow!("a node's start broke off"))?
            })
        })?;
        for node in &nodes {
            node_agent::join(self, &keys, node)?;
        }
        for other in state::others(&self.layout.name)? {
            control_plane::write_names(&other, &state::others(&other.name)?)?;
        }
        self.publish_kubeconfig()?;
        self.wait_for_nodes(&nodes)
    }

    fn wait_for_nodes(&self, nodes: &[Node]) -> Result<()> {
        progress::wait_for(
            "Ready nodes and a default service account",
            Duration::from_mins(5),
            || {
                let ready = self.ready_nodes()?;
                if ready.len() < nodes.len() {
                    return Ok(Look::Waiting(format!(
                        "{} of {} nodes are Ready",
                        ready.len(),
                        nodes.len()
                    )));
                }
                self.kubectl(["get", "serviceaccount", "default"])
                    .map(|_| Look::Done(()))
            },
        )
        .with_context(|| format!("logs: {}", self.folder.join("logs").display()))
    }

    /// Names of the nodes that are Ready.
    pub fn ready_nodes(&self) -> Result<Vec<String>> {
        let list = self.access()?.get(["nodes"])?;
        let mut ready = Vec::new();
        for node in list["items"].as_array().unwrap_or(&Vec::new()) {
            let conditions = node["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            if conditions
                .iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
            {
                ready.extend(node["metadata"]["name"].as_str().map(String::from));
            }
        }
        Ok(ready)
    }

    /// Writes a kubeconfig that needs no other file.
    fn publish_kubeconfig(&self) -> Result<()> {
        let whole = self.kubectl(["config", "view", "--flatten", "--raw"])?;
        paths::write_if_changed(&self.kubeconfig()?, &whole).map(|_| ())
    }

    /// Ends this region; the others stay.
    pub fn down(&self) -> Result<()> {
        down(std::slice::from_ref(&self.layout.name))
    }

    /// Names and addresses.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The region's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A configuration file of the region.
    pub fn conf(&self, name: &str) -> PathBuf {
        self.folder.join("conf").join(name)
    }

    /// Path of the region's kubeconfig, the same at every `up`.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        kubeconfig_of(&self.layout.name)
    }

    /// The box of the control plane.
    pub fn control_plane(&self) -> Box {
        Box::new(&self.folder, control_plane::BOX)
    }

    /// The box of a node.
    pub fn node_box(&self, node: &Node) -> Box {
        Box::new(&self.folder, &node.short)
    }

    /// The node of that short (`a`) or whole (`us-east-a`) name.
    pub fn node(&self, name: &str) -> Result<Node> {
        let nodes = self.layout.nodes();
        let known: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let found = nodes
            .into_iter()
            .find(|node| node.short == name || node.name == name);
        found.with_context(|| {
            format!(
                "no node {name} in {}; there are {}",
                self.layout.name,
                known.join(", ")
            )
        })
    }

    /// kubectl and helm for this region.
    pub fn access(&self) -> Result<Access> {
        Access::by_kubeconfig(self.conf("admin.kubeconfig"))
    }

    /// Runs kubectl and returns what it printed.
    pub fn kubectl<I, S>(&self, arguments: I) -> Result<String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        self.access()?.kubectl(arguments)
    }

    /// Loads an image archive into every node.
    pub fn load_image(&self, archive: &Path) -> Result<()> {
        let archive = std::path::absolute(archive).context("find the archive")?;
        for node in self.layout.nodes() {
            if self.node_box(&node).pid().is_some() {
                node_agent::import(self, &node, &archive)?;
            }
        }
        Ok(())
    }

    /// Power failure of a node: everything on it ends at once.
    pub fn kill_node(&self, name: &str) -> Result<()> {
        self.node_box(&self.node(name)?).kill()
    }

    /// Starts a node again after [`Region::kill_node`].
    pub fn start_node(&self, name: &str) -> Result<()> {
        let node = self.node(name)?;
        let keys = Certificates::ensure(&self.layout, &self.folder)?;
        node_agent::start(self, &node)?;
        node_agent::join(self, &keys, &node)
    }
}

/// Where the kubeconfig of a region lies.
pub fn kubeconfig_of(region: &str) -> Result<PathBuf> {
    Ok(programs::home()?.join(format!("{region}.kubeconfig")))
}

/// Cuts (`up = false`) or mends the link of two regions.
pub fn link(a: &Region, b: &Region, up: bool) -> Result<()> {
    network::set_link(&a.layout, &b.layout, up)
}

/// Ends the named regions; all of them, with everything that was left behind, when none is named.
pub fn down(regions: &[String]) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("ending a local Kubernetes needs root: run this as root or with sudo");
    }
    let _turn = state::lock()?;
    let step = Step::begin("ending the local Kubernetes");
    let boxes = cgroup::names();
    let mut names = regions.to_vec();
    if regions.is_empty() {
        names = state::names()?;
        names.extend(
            boxes
                .iter()
                .filter_map(|name| name.split_once('.'))
                .map(|(region, _)| region.to_owned()),
        );
        names.sort();
        names.dedup();
    }
    for region in &names {
        end_region(region, &boxes)?;
    }
    let left = state::names()?;
    // boxes without a remembered region belong to another cache folder, and so may all the rest
    if left.is_empty() && cgroup::names().is_empty() {
        network::down_all()?;
        cgroup::remove_all()?;
        state::remove_made_folders()?;
    }
    for name in left {
        if let Some(layout) = state::load(&name)? {
            control_plane::write_names(&layout, &state::others(&name)?)?;
        }
    }
    step.done();
    Ok(())
}

fn end_region(region: &str, boxes: &[String]) -> Result<()> {
    let folder = state::folder(region)?;
    let ours: Vec<&str> = boxes
        .iter()
        .filter_map(|name| name.split_once('.'))
        .filter(|(r, _)| *r == region)
        .map(|(_, b)| b)
        .collect();
    let ours: Vec<Box> = ours
        .into_iter()
        .map(|name| Box::new(&folder, name))
        .collect();
    // all at once, then wait
    ours.iter().for_each(Box::signal);
    ours.iter().try_for_each(Box::wait_for_end)?;
    network::down(region)?;
    for path in [folder, kubeconfig_of(region)?] {
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
