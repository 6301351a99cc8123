//! The control plane of a region: etcd, apiserver, controller manager, scheduler, DNS and the volume controller, in one box.

use super::boxes::Start;
use super::certificates::Certificates;
use super::layout::Layout;
use super::programs::program;
use super::{Region, state};
use crate::{paths, progress};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// Name of the control plane's box.
pub const BOX: &str = "cp";

/// Starts etcd and the apiserver and waits until that is ready.
pub fn start_apiserver(region: &Region, keys: &Certificates) -> Result<()> {
    let layout = region.layout();
    let the_box = region.control_plane();
    let hostname = format!("{}-cp", layout.name);
    the_box.start(&Start {
        namespace: &layout.namespace(),
        hostname: &hostname,
        private: &[],
    })?;
    the_box.service("etcd", etcd(region)?)?;
    the_box.service("kube-apiserver", apiserver(layout, keys)?)?;
    progress::wait_until("the apiserver", Duration::from_mins(3), || {
        region
            .kubectl(["get", "--raw", "/readyz"])
            .map(|answer| answer == "ok")
    })
    .with_context(|| format!("logs: {}", the_box.logs().display()))
}

/// Starts the rest of the control plane.
pub fn start_rest(region: &Region, keys: &Certificates) -> Result<()> {
    let the_box = region.control_plane();
    the_box.service("kube-controller-manager", controller_manager(region, keys)?)?;
    the_box.service("kube-scheduler", scheduler(region)?)?;
    write_names(region.layout(), &state::others(&region.layout().name)?)?;
    let corefile = region.conf("Corefile");
    the_box.service(
        "dns",
        [text(&program("dns")?), "-conf".into(), text(&corefile)],
    )?;
    let pool = region.folder().join("pool");
    fs::create_dir_all(&pool).context("make the pool of volumes")?;
    let admin = text(&region.conf("admin.kubeconfig"));
    let volumes = [
        text(&program("csi")?),
        "controller".into(),
        "--kubeconfig".into(),
        admin,
    ];
    the_box.service(
        "csi",
        volumes.into_iter().chain(["--pool".into(), text(&pool)]),
    )?;
    region
        .access()?
        .apply(&storage_classes().to_string())
        .map(|_| ())
}

fn text(path: &std::path::Path) -> String {
    path.display().to_string()
}

fn etcd(region: &Region) -> Result<Vec<String>> {
    let (client, peer) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    let name = &region.layout().name;
    Ok(vec![
        text(&program("etcd")?),
        format!("--name={name}"),
        format!("--data-dir={}", region.folder().join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster={name}={peer}"),
        "--log-level=warn".into(),
        "--unsafe-no-fsync".into(),
    ])
}

fn apiserver(layout: &Layout, keys: &Certificates) -> Result<Vec<String>> {
    let mut command = vec![text(&program("kube-apiserver")?)];
    let mut flag = |name: &str, value: &str| command.push(format!("--{name}={value}"));
    flag("bind-address", "0.0.0.0");
    flag("advertise-address", &layout.control_plane_ip());
    flag("secure-port", "6443");
    flag("etcd-servers", "http://127.0.0.1:2379");
    flag("service-cluster-ip-range", &layout.services());
    flag("tls-cert-file", &keys.text("apiserver.crt"));
    flag("tls-private-key-file", &keys.text("apiserver.key"));
    flag("client-ca-file", &keys.text("ca.crt"));
    flag(
        "kubelet-client-certificate",
        &keys.text("apiserver-kubelet.crt"),
    );
    flag("kubelet-client-key", &keys.text("apiserver-kubelet.key"));
    flag("kubelet-certificate-authority", &keys.text("ca.crt"));
    flag("kubelet-preferred-address-types", "InternalIP");
    flag("service-account-key-file", &keys.text("sa.pub"));
    flag("service-account-signing-key-file", &keys.text("sa.key"));
    flag(
        "service-account-issuer",
        &format!("https://kubernetes.default.svc.{}", layout.domain),
    );
    flag("authorization-mode", "Node,RBAC");
    flag("enable-admission-plugins", "NodeRestriction");
    flag("allow-privileged", "true");
    flag("enable-aggregator-routing", "true");
    flag("requestheader-client-ca-file", &keys.text("front-ca.crt"));
    flag("requestheader-allowed-names", "front-proxy-client");
    flag("requestheader-username-headers", "X-Remote-User");
    flag("requestheader-group-headers", "X-Remote-Group");
    flag("requestheader-extra-headers-prefix", "X-Remote-Extra-");
    flag("proxy-client-cert-file", &keys.text("front-proxy.crt"));
    flag("proxy-client-key-file", &keys.text("front-proxy.key"));
    // a test should not wait five minutes until a dead node's pods are given up
    flag("default-not-ready-toleration-seconds", "5");
    flag("default-unreachable-toleration-seconds", "5");
    flag("profiling", "false");
    Ok(command)
}

fn controller_manager(region: &Region, keys: &Certificates) -> Result<Vec<String>> {
    Ok(vec![
        text(&program("kube-controller-manager")?),
        format!(
            "--kubeconfig={}",
            region.conf("controller-manager.kubeconfig").display()
        ),
        "--bind-address=127.0.0.1".into(),
        format!("--service-account-private-key-file={}", keys.text("sa.key")),
        format!("--root-ca-file={}", keys.text("ca.crt")),
        format!("--cluster-signing-cert-file={}", keys.text("ca.crt")),
        format!("--cluster-signing-key-file={}", keys.text("ca.key")),
        "--use-service-account-credentials=true".into(),
        "--leader-elect=false".into(),
        "--allocate-node-cidrs=false".into(),
        format!("--cluster-cidr={}", region.layout().pods()),
        "--node-monitor-period=1s".into(),
        "--node-monitor-grace-period=16s".into(),
        "--pvclaimbinder-sync-period=5s".into(),
        "--profiling=false".into(),
    ])
}

fn scheduler(region: &Region) -> Result<Vec<String>> {
    Ok(vec![
        text(&program("kube-scheduler")?),
        format!(
            "--kubeconfig={}",
            region.conf("scheduler.kubeconfig").display()
        ),
        "--bind-address=127.0.0.1".into(),
        "--leader-elect=false".into(),
        "--profiling=false".into(),
    ])
}

/// Writes a region's DNS configuration: own names from the apiserver, those of other regions by asking their servers,
/// where their domains differ. The server reads a changed file by itself.
pub fn write_names(layout: &Layout, others: &[Layout]) -> Result<()> {
    let folder = state::folder(&layout.name)?.join("conf");
    let (address, domain) = (layout.control_plane_ip(), &layout.domain);
    let kubeconfig = folder.join("dns.kubeconfig");
    let mut names = format!(
        ".:53 {{\n  bind {address}\n  errors\n  ready 127.0.0.1:8181\n  reload 2s 1s\n  \
         kubernetes {domain} in-addr.arpa {{\n    kubeconfig {}\n    ttl 5\n  }}\n  cache 5\n}}\n",
        kubeconfig.display()
    );
    for other in others.iter().filter(|other| other.domain != *domain) {
        let (domain, server) = (&other.domain, other.control_plane_ip());
        write!(
            names,
            "{domain}:53 {{\n  bind {address}\n  errors\n  cache 5\n  forward . {server}\n}}\n"
        )?;
    }
    paths::write_if_changed(&folder.join("Corefile"), &names).map(|_| ())
}

/// The driver and its two storage classes: `local` (folders, the default) and `local-xfs` (real size limit, can grow).
fn storage_classes() -> Value {
    let class = |name: &str, kind: &str, default: bool| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": name, "annotations": {
                "storageclass.kubernetes.io/is-default-class": default.to_string()}},
            "provisioner": "csi.helenus.test", "parameters": {"kind": kind}, "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
        })
    };
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "csi.helenus.test"},
        "spec": {"attachRequired": false, "podInfoOnMount": false, "fsGroupPolicy": "File"},
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        driver, class("local", "dir", true), class("local-xfs", "loop", false)]})
}
