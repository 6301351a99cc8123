//! What runs on each Kubernetes node: containerd, the kubelet, kube-proxy and the volume driver, in a box of its own.

use super::boxes::Start;
use super::certificates::Certificates;
use super::layout::Node;
use super::programs::program;
use super::{Region, base_images};
use crate::{paths, progress};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Folders that a node must have to itself.
pub const PRIVATE: &[&str] = &[
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/cni",
    "/etc/cni",
    "/var/log/pods",
    "/var/log/containers",
];

const CONTAINERD: &str = r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "helenus.dev/pause:1"
  netns_mounts_under_state_dir = true
  disable_tcp_service = true
  # without CAP_SYS_RESOURCE no out-of-memory score can be lowered
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "runc"
  SystemdCgroup = false
"#;

/// Starts the box with containerd and loads the base images.
pub fn start(region: &Region, node: &Node) -> Result<()> {
    let layout = region.layout();
    let the_box = region.node_box(node);
    let namespace = layout.node_namespace(node);
    the_box.start(&Start {
        namespace: &namespace,
        hostname: &node.name,
        private: PRIVATE,
    })?;
    let network = the_box.private("/etc/cni/net.d/10-helenus.conflist");
    paths::write_if_changed(&network, &pod_network(&layout.node_pods(node)).to_string())?;
    let settings = region.conf(&format!("containerd-{}.toml", node.short));
    paths::write_if_changed(&settings, CONTAINERD)?;
    the_box.service(
        "containerd",
        [
            "containerd".to_owned(),
            "--config".to_owned(),
            text(&settings),
        ],
    )?;
    progress::wait_until(
        &format!("containerd of {}", node.name),
        Duration::from_mins(2),
        || the_box.run("ctr", ["version"]).map(|_| true),
    )
    .with_context(|| format!("logs: {}", the_box.logs().display()))?;
    let have = the_box.run("ctr", ["-n", "k8s.io", "images", "ls", "-q"])?;
    for (name, archive) in base_images::all()? {
        if !have.lines().any(|line| line == name) {
            import(region, node, &archive)?;
        }
    }
    Ok(())
}

/// Loads an image archive into the node's containerd.
pub fn import(region: &Region, node: &Node, archive: &Path) -> Result<()> {
    let path = text(archive);
    let the_box = region.node_box(node);
    the_box
        .run("ctr", ["-n", "k8s.io", "images", "import", &path])
        .map(|_| ())
        .with_context(|| format!("load {path} into {}", node.name))
}

/// Joins the node to the cluster; needs the apiserver.
pub fn join(region: &Region, keys: &Certificates, node: &Node) -> Result<()> {
    let layout = region.layout();
    let the_box = region.node_box(node);
    let resolver = region.conf("resolv.conf");
    paths::write_if_changed(
        &resolver,
        &format!("nameserver {}\n", layout.control_plane_ip()),
    )?;
    let settings = region.conf(&format!("kubelet-{}.json", node.short));
    paths::write_if_changed(
        &settings,
        &kubelet(region, keys, node, &resolver).to_string(),
    )?;
    the_box.service(
        "csi",
        [
            text(&program("csi")?),
            "node".into(),
            format!("--node={}", node.name),
            format!("--zone={}", node.zone),
            format!("--pool={}", region.folder().join("pool").display()),
        ],
    )?;
    let labels = format!(
        "topology.kubernetes.io/zone={},topology.kubernetes.io/region={}",
        node.zone, layout.name
    );
    the_box.service(
        "kubelet",
        [
            text(&program("kubelet")?),
            format!("--config={}", settings.display()),
            format!(
                "--kubeconfig={}",
                region.conf(&format!("{}.kubeconfig", node.name)).display()
            ),
            format!("--hostname-override={}", node.name),
            format!("--node-ip={}", layout.node_ip(node)),
            format!("--node-labels={labels}"),
            "--v=1".into(),
        ],
    )?;
    let settings = region.conf(&format!("proxy-{}.json", node.short));
    paths::write_if_changed(&settings, &proxy(region, node).to_string())?;
    the_box.service(
        "kube-proxy",
        [
            text(&program("kube-proxy")?),
            format!("--config={}", settings.display()),
        ],
    )
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn pod_network(pods: &str) -> Value {
    json!({"cniVersion": "1.0.0", "name": "helenus", "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
         "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": pods}]],
                  "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]})
}

fn kubelet(region: &Region, keys: &Certificates, node: &Node, resolver: &Path) -> Value {
    let layout = region.layout();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": layout.node_ip(node), "port": 10250, "readOnlyPort": 0, "healthzBindAddress": "127.0.0.1",
        "tlsCertFile": keys.text(&format!("{}.crt", node.name)),
        "tlsPrivateKeyFile": keys.text(&format!("{}.key", node.name)),
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true},
                           "x509": {"clientCAFile": keys.text("ca.crt")}},
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs", "cgroupRoot": "/", "failCgroupV1": false, "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "clusterDNS": [layout.control_plane_ip()], "clusterDomain": layout.domain, "resolvConf": text(resolver),
        // the disk is the machine's own: how full that is must not evict pods
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                         "imagefs.available": "0%", "imagefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": false, "serializeImagePulls": false,
        "nodeStatusUpdateFrequency": "4s", "nodeLeaseDurationSeconds": 12,
        // a volume's growth is carried out at a pod's next sync
        "syncFrequency": "10s",
        "maxPods": 60, "systemReserved": {"memory": "1Gi"}, "volumeStatsAggPeriod": "0s", "registerWithTaints": [],
    })
}

fn proxy(region: &Region, node: &Node) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "mode": "nftables", "clusterCIDR": region.layout().pods(), "detectLocalMode": "ClusterCIDR",
        "hostnameOverride": node.name, "bindAddress": "0.0.0.0",
        "healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": text(&region.conf("proxy.kubeconfig"))},
        // only the machine's own network namespace may set these
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })
}
