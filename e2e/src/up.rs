//! `cargo xtask up`: from nothing to rows read back through CQL, in steps that can all be repeated.

use crate::first_session::{self, Nodes};
use crate::image::{self, Part, TAG};
use crate::kubernetes::access::Access;
use crate::kubernetes::forward::{self, Forward};
use crate::kubernetes::{Region, Settings};
use crate::paths;
use crate::progress::{self, Look, Step, say};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the operator lives.
const NAMESPACE: &str = "helenus-system";
/// Name of the Helm release, and of its Deployment.
const RELEASE: &str = "helenus-operator";
/// Where nodes speak CQL.
const CQL_PORT: u16 = 9042;
/// How long a cluster may take until all its nodes are ready.
const LIMIT: Duration = Duration::from_mins(10);

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A context of your kubeconfig to use instead of a local Kubernetes.
    #[arg(long)]
    pub context: Option<String>,
    /// Name of the local Kubernetes.
    #[arg(long, env = "HELENUS_REGION", default_value = "us-east")]
    pub region: String,
    /// Use the images in target/images as they are.
    #[arg(long)]
    pub no_build: bool,
    /// What to apply.
    #[arg(long, default_value = "deploy/samples/cluster-3-racks.yaml")]
    pub sample: PathBuf,
    /// The images to build; both, unless told otherwise.
    #[command(flatten)]
    pub image: image::Options,
}

/// Brings everything up and shows that it works.
pub fn up(options: &Options) -> Result<()> {
    let whole = Step::begin("cargo xtask up");
    let region = match options.context {
        None => Some(Region::up(&options.region, &Settings::default())?),
        Some(_) => None,
    };
    let access = match (&region, &options.context) {
        (Some(region), _) => region.access()?,
        (None, context) => Access::by_context(context.as_deref().unwrap_or_default())?,
    };
    if !options.no_build {
        image::build(&options.image)?;
    }
    let fresh = provide_images(region.as_ref())?;
    install_operator(&access, fresh.contains(&Part::Operator))?;
    let cluster = apply_sample(&access, &paths::workspace().join(&options.sample))?;
    if fresh.contains(&Part::Node) {
        cluster.restart_old_pods(&access)?;
    }
    cluster.wait(&access)?;
    cluster.show(&access, region.as_ref())?;
    whole.done();
    Ok(())
}

/// Loads those images that changed since they were last loaded; returns them.
pub fn provide_images(region: Option<&Region>) -> Result<Vec<Part>> {
    let parts = [Part::Node, Part::Operator];
    for part in parts {
        let archive = part.archive();
        if !archive.exists() {
            bail!(
                "{} is not there: run `cargo xtask image`",
                archive.display()
            );
        }
    }
    let Some(region) = region else {
        say("your cluster needs the images; with kind:");
        for part in parts {
            say(&format!(
                "    kind load image-archive {}",
                part.archive().display()
            ));
        }
        say(
            "elsewhere: `docker load -i` them and push them, or `ctr -n k8s.io images import` them on every node",
        );
        return Ok(Vec::new());
    };
    let mut fresh = Vec::new();
    for part in parts {
        if load_if_changed(region, part)? {
            fresh.push(part);
        }
    }
    Ok(fresh)
}

fn load_if_changed(region: &Region, part: Part) -> Result<bool> {
    let archive = part.archive();
    let content = fs::read(&archive).with_context(|| format!("read {}", archive.display()))?;
    let digest = image::archive::digest(&content);
    let mark = region.folder().join(format!("loaded-{}", part.name()));
    if fs::read_to_string(&mark).is_ok_and(|old| old == digest) {
        return Ok(false);
    }
    let step = Step::begin(&format!(
        "loading {} into {}",
        part.image(),
        region.layout().name
    ));
    region.load_image(&archive)?;
    let again = mark.exists();
    fs::write(&mark, digest).context("remember what was loaded")?;
    step.done();
    Ok(again)
}

/// Installs the operator's chart or brings it up to date, and waits until the operator is ready; `restart` when the image is
/// another one under the same name.
pub fn install_operator(access: &Access, restart: bool) -> Result<()> {
    let step = Step::begin("installing the operator with Helm");
    let charts = paths::workspace().join("charts/helenus-operator");
    // helm installs the definitions only once and never updates them
    access.kubectl([
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        &charts.join("crds").display().to_string(),
    ])?;
    access.helm([
        "upgrade",
        "--install",
        RELEASE,
        &charts.display().to_string(),
        "--namespace",
        NAMESPACE,
        "--create-namespace",
        "--set",
        &format!(
            "image.repository={},image.tag={TAG}",
            Part::Operator.repository()
        ),
        "--set",
        &format!("node.image={}", Part::Node.image()),
    ])?;
    if restart {
        access.kubectl([
            "-n",
            NAMESPACE,
            "rollout",
            "restart",
            &format!("deployment/{RELEASE}"),
        ])?;
    }
    let ready = progress::wait_for("the operator", Duration::from_mins(3), || {
        let deployment = access.get(["-n", NAMESPACE, "deployment", RELEASE])?;
        let status = &deployment["status"];
        let current = status["observedGeneration"] == deployment["metadata"]["generation"];
        let (wanted, updated) = (&deployment["spec"]["replicas"], &status["updatedReplicas"]);
        if current
            && status["readyReplicas"] == *wanted
            && updated == wanted
            && status["replicas"] == *wanted
        {
            return Ok(Look::Done(()));
        }
        Ok(Look::Waiting(pod_states(access, &["-n", NAMESPACE])?))
    });
    explain(access, ready, &["-n", NAMESPACE], "")?;
    step.done();
    Ok(())
}

/// One CassandraCluster in a Kubernetes.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Name of the object.
    pub name: String,
    /// Its data center, as CQL names it.
    pub datacenter: String,
    /// Nodes that it shall have.
    pub nodes: usize,
    selector: String,
}

fn apply_sample(access: &Access, sample: &Path) -> Result<Cluster> {
    let mut manifest =
        fs::read_to_string(sample).with_context(|| format!("read {}", sample.display()))?;
    let nodes = access.get(["nodes"])?;
    let zones: Vec<&str> = items(&nodes)
        .filter_map(|node| node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str())
        .collect();
    if let Some(without) = without_unknown_zones(&manifest, &zones) {
        say("the nodes are not in the zones that the sample names: its racks may lie anywhere");
        manifest = without;
    }
    Cluster::apply(access, &manifest).with_context(|| format!("apply {}", sample.display()))
}

/// The manifest without the zones of its racks, if the Kubernetes has none of them.
fn without_unknown_zones(manifest: &str, zones: &[&str]) -> Option<String> {
    let named: Vec<&str> = manifest.lines().filter_map(zone_in).collect();
    if named.is_empty() || named.iter().any(|zone| zones.contains(zone)) {
        return None;
    }
    let mut text = String::new();
    for line in manifest.lines() {
        let line = match zone_in(line) {
            Some(zone) => line.replace(&format!(", zone: {zone}"), ""),
            None => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    Some(text)
}

/// The zone in a line like `- {name: a, zone: us-east-a}`.
fn zone_in(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(", zone: ")?;
    rest.split(['}', ',', ' ']).next()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

impl Cluster {
    /// Applies a manifest that holds one CassandraCluster, in YAML or JSON.
    pub fn apply(access: &Access, manifest: &str) -> Result<Self> {
        say(access.apply(manifest)?.trim());
        let objects = access.get_named_in(manifest)?;
        let one = [objects.clone()];
        let list = objects["items"].as_array().map_or(&one[..], Vec::as_slice);
        let object = list.iter().find(|item| item["kind"] == "CassandraCluster");
        let object = object.context("the manifest holds no CassandraCluster")?;
        let text = |value: &Value| {
            value
                .as_str()
                .map(String::from)
                .context("the cluster lacks a name")
        };
        let name = text(&object["metadata"]["name"])?;
        Ok(Self {
            selector: format!("helenus.dev/cluster={name}"),
            datacenter: text(&object["spec"]["datacenters"][0]["name"])?,
            nodes: usize::try_from(object["spec"]["nodes"].as_u64().unwrap_or(3))?,
            name,
        })
    }

    /// Names and addresses of its pods that have one.
    pub fn pods(&self, access: &Access) -> Result<Vec<(String, IpAddr)>> {
        let pods = access.get(["pods", "-l", &self.selector])?;
        let mut found = Vec::new();
        for pod in items(&pods) {
            let name = pod["metadata"]["name"]
                .as_str()
                .context("a pod lacks a name")?;
            if let Some(ip) = pod["status"]["podIP"].as_str() {
                found.push((name.to_owned(), ip.parse()?));
            }
        }
        Ok(found)
    }

    /// Restarts pods one by one after their image changed under its name.
    fn restart_old_pods(&self, access: &Access) -> Result<()> {
        let pods = access.get(["pods", "-l", &self.selector])?;
        let names: Vec<&str> = items(&pods)
            .filter_map(|pod| pod["metadata"]["name"].as_str())
            .collect();
        for name in names {
            say(&format!("the node's image is new: restarting {name}"));
            access.kubectl(["delete", "pod", name])?;
            self.wait(access)?;
        }
        Ok(())
    }

    /// Waits until all nodes are ready; on failure prints what helps to see why.
    pub fn wait(&self, access: &Access) -> Result<()> {
        let what = format!("{} ready nodes of cluster {}", self.nodes, self.name);
        let ready = progress::wait_for(&what, LIMIT, || {
            let cluster = access.get(["cassandracluster", &self.name])?;
            let status = &cluster["status"];
            let current = status["observedGeneration"] == cluster["metadata"]["generation"];
            let pods = access.get(["pods", "-l", &self.selector])?;
            let ready = items(&pods).filter(|pod| is_ready(pod)).count();
            if current
                && status["readyNodes"].as_u64() == Some(self.nodes as u64)
                && ready == self.nodes
            {
                return Ok(Look::Done(()));
            }
            let summary = status["summary"]
                .as_str()
                .unwrap_or("the operator has not said anything yet");
            let pods = pod_states(access, &["-l", &self.selector])?;
            Ok(Look::Waiting(format!(
                "{} of {} ready, {summary}{pods}",
                status["readyNodes"], self.nodes
            )))
        });
        explain(access, ready, &["-l", &self.selector], &self.name)
    }

    /// Waits until every node sees every node up and normal: gossip takes a second or two longer
    /// than readiness.
    fn wait_until_seen(&self, access: &Access, pods: &[(String, IpAddr)]) -> Result<()> {
        let what = format!("{} nodes that see each other UN", self.nodes);
        progress::wait_for(&what, LIMIT, || {
            for (pod, _) in pods {
                let status = access.exec(pod, &["/helenus", "nodetool", "status"])?;
                let normal = status
                    .lines()
                    .filter(|line| line.starts_with("UN "))
                    .count();
                if normal != self.nodes {
                    return Ok(Look::Waiting(format!("{pod} sees {normal}")));
                }
            }
            Ok(Look::Done(()))
        })
    }

    /// Runs the first session and prints what a person wants to see.
    fn show(&self, access: &Access, region: Option<&Region>) -> Result<()> {
        let found = self.pods(access)?;
        let (first, address) = found.first().cloned().context("the cluster has no pod")?;
        let direct = found
            .iter()
            .all(|(_, ip)| reaches(SocketAddr::new(*ip, CQL_PORT)));
        ensure!(
            direct || region.is_none(),
            "the pods are ready, but their CQL port {CQL_PORT} cannot be reached from here: {found:?}"
        );
        self.wait_until_seen(access, &found)?;
        self.first_session(access, &found, direct)?;
        println!();
        print!(
            "{}",
            access.kubectl(["get", "cassandraclusters,cassandranodes"])?
        );
        println!();
        print!(
            "{}",
            access.exec(&first, &["/helenus", "nodetool", "status"])?
        );
        println!();
        let words = access.kubectl_words();
        if direct {
            println!("Connect:  cqlsh {address}          (pip install cqlsh)");
        } else {
            println!(
                "Connect:  {words} port-forward pod/{first} {CQL_PORT}:{CQL_PORT}, then cqlsh 127.0.0.1"
            );
        }
        println!("Look:     {words} get cassandraclusters,cassandranodes,pods");
        match region {
            Some(region) => {
                println!(
                    "          export KUBECONFIG={}",
                    region.kubeconfig()?.display()
                );
                println!("End:      cargo xtask down");
            }
            None => println!("End:      {words} delete cassandracluster {}", self.name),
        }
        Ok(())
    }

    /// Runs the first session, through forwarded ports where the pods cannot be reached directly.
    fn first_session(
        &self,
        access: &Access,
        pods: &[(String, IpAddr)],
        direct: bool,
    ) -> Result<()> {
        say("first CQL session");
        let mut forwards = Vec::new();
        let mut nodes = Nodes::default();
        for (name, ip) in pods {
            if direct {
                nodes.addresses.push(SocketAddr::new(*ip, CQL_PORT));
            } else {
                forwards.push(Forward::start(access, name, *ip, CQL_PORT)?);
            }
        }
        nodes
            .addresses
            .extend(forwards.iter().map(|forward| forward.local));
        nodes.translation = forward::translation(&forwards);
        for line in first_session::run(&nodes, &self.datacenter, self.nodes.min(3))? {
            println!("cqlsh> {line}");
        }
        Ok(())
    }
}

fn reaches(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(3)).is_ok()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions
            .into_iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// One line per pod that is not ready: why.
fn pod_states(access: &Access, which: &[&str]) -> Result<String> {
    let pods = access.get(["pods"].iter().chain(which).copied())?;
    let mut text = String::new();
    for pod in items(&pods).filter(|pod| !is_ready(pod)) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        write!(text, "\n    {name}: {}", pod_state(pod))?;
    }
    Ok(text)
}

fn pod_state(pod: &Value) -> String {
    let status = &pod["status"];
    let mut words = vec![status["phase"].as_str().unwrap_or("new").to_owned()];
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        words.push("ending".into());
    }
    for container in status["containerStatuses"].as_array().into_iter().flatten() {
        for (kind, detail) in container["state"].as_object().into_iter().flatten() {
            let reason = detail["reason"].as_str().unwrap_or(kind);
            words.push(format!(
                "{reason} {}",
                detail["message"].as_str().unwrap_or_default()
            ));
        }
        if let Some(restarts) = container["restartCount"]
            .as_u64()
            .filter(|count| *count > 0)
        {
            words.push(format!("restarted {restarts} times"));
        }
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        if condition["type"] == "PodScheduled" && condition["status"] == "False" {
            words.push(condition["message"].as_str().unwrap_or_default().to_owned());
        }
    }
    words.join(", ")
}

/// Adds to a failed wait what helps to understand it: pods, logs of those that are not ready, events, the operator's log.
fn explain(access: &Access, result: Result<()>, which: &[&str], cluster: &str) -> Result<()> {
    let Err(error) = result else { return Ok(()) };
    let show = |title: &str, text: Result<String>| {
        eprintln!("---- {title}");
        eprintln!(
            "{}",
            text.unwrap_or_else(|error| format!("{error:#}")).trim_end()
        );
    };
    let pods = access
        .get(["pods"].iter().chain(which).copied())
        .unwrap_or_default();
    for pod in items(&pods).filter(|pod| !is_ready(pod)) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let logs = ["logs", "-n", namespace, name, "--tail=40"];
        show(&format!("log of pod {name}"), access.kubectl(logs));
        if pod["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(0) {
            show(
                &format!("log of pod {name} before its restart"),
                access.kubectl(logs.iter().chain(&["--previous"])),
            );
        }
    }
    if !cluster.is_empty() {
        show(
            "the cluster",
            access.kubectl(["describe", "cassandracluster", cluster]),
        );
        let operator = format!("deployment/{RELEASE}");
        show(
            "log of the operator",
            access.kubectl(["-n", NAMESPACE, "logs", &operator, "--tail=40"]),
        );
    }
    let events = access.kubectl(["get", "events", "-A", "--sort-by=.lastTimestamp"]);
    let last = events.map(|text| {
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    });
    show("last events", last);
    let words = access.kubectl_words();
    Err(error.context(format!(
        "give up waiting (what is known stands above; everything is still running: look with `{words} get pods -A`, \
         then run the same command again, or end it with `cargo xtask down`)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn zones_are_dropped_only_where_the_cluster_has_none_of_them() {
        let manifest = "racks:\n- {name: a, zone: us-east-a}\n- {name: b, zone: us-east-b}\n";
        assert_eq!(without_unknown_zones(manifest, &["us-east-b"]), None);
        assert_eq!(
            without_unknown_zones(manifest, &[]).unwrap(),
            "racks:\n- {name: a}\n- {name: b}\n"
        );
        assert_eq!(without_unknown_zones("kind: X\n", &[]), None);
    }

    #[test]
    fn a_pod_says_why_it_is_not_ready() {
        let pod = json!({"metadata": {"name": "x"}, "status": {"phase": "Pending", "containerStatuses": [
            {"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}],
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node fits"}]}});
        let state = pod_state(&pod);
        for word in [
            "Pending",
            "CrashLoopBackOff back-off",
            "restarted 2 times",
            "no node fits",
        ] {
            assert!(state.contains(word), "{state}");
        }
        assert!(!is_ready(&pod));
    }
}
