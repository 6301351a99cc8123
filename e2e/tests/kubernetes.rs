//! The local Kubernetes itself: names, networks, volumes, a node's power failure, and nothing left at the end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what it did not expect"
)]

mod machine;

use anyhow::{Result, ensure};
use helenus_e2e::kubernetes::access::Access;
use helenus_e2e::kubernetes::{Region, Settings, base_images};
use helenus_e2e::progress::{self, Look};
use machine::Traces;
use serde_json::{Value, json};
use std::time::Duration;

const REGION: &str = "test-one";

fn pod(name: &str, script: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": base_images::BUSYBOX, "imagePullPolicy": "Never",
                        "command": ["sh", "-c", script]}]}})
}

/// Three web servers, one per zone, behind a headless and an ordinary service.
fn web_servers() -> Value {
    let template = {
        let mut spec = pod(
            "",
            "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www",
        )["spec"]
            .take();
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}]);
        json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
    };
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {
        "serviceName": "peers", "replicas": 3, "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let service = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["selector"] = json!({"app": "web"});
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
    };
    json!({"apiVersion": "v1", "kind": "List", "items": [
        set,
        service("peers", json!({"clusterIP": "None", "ports": [{"port": 8080}]})),
        service("web", json!({"ports": [{"port": 80, "targetPort": 8080}]}))]})
}

fn wait_for_ready_set(access: &Access) -> Result<()> {
    progress::wait_for("three web servers", Duration::from_mins(3), || {
        let ready = access.get(["statefulset", "web"])?["status"]["readyReplicas"].clone();
        Ok(if ready == 3 {
            Look::Done(())
        } else {
            Look::Waiting(format!("{ready} ready"))
        })
    })
}

fn fetch(access: &Access, from: &str, url: &str) -> Result<String> {
    access
        .exec(from, &["timeout", "5", "wget", "-q", "-O", "-", url])
        .map(|text| text.trim().to_owned())
}

fn pods_services_and_names(access: &Access) -> Result<()> {
    access.apply(&web_servers().to_string())?;
    wait_for_ready_set(access)?;
    let pods = access.get(["pods", "-l", "app=web"])?;
    let field = |path: &str| -> Vec<String> {
        let pods = pods["items"].as_array().unwrap().iter();
        pods.map(|pod| {
            pod.pointer(path)
                .and_then(Value::as_str)
                .unwrap()
                .to_owned()
        })
        .collect()
    };
    let (addresses, mut hosts) = (field("/status/podIP"), field("/spec/nodeName"));
    hosts.sort();
    assert_eq!(
        hosts,
        ["a", "b", "c"].map(|zone| format!("{REGION}-{zone}"))
    );
    for address in &addresses {
        let url = format!("http://{address}:8080/");
        ensure!(
            fetch(access, "web-0", &url)?.starts_with("web-"),
            "pod to pod"
        );
        // from the machine itself, as drivers do
        let reached = std::net::TcpStream::connect_timeout(
            &format!("{address}:8080").parse()?,
            Duration::from_secs(5),
        );
        ensure!(reached.is_ok(), "host to pod {address}: {reached:?}");
    }
    progress::wait_until("a pod's name by DNS", Duration::from_secs(30), || {
        Ok(fetch(access, "web-0", "http://web-2.peers:8080/")? == "web-2")
    })?;
    progress::wait_until("a service by name", Duration::from_secs(30), || {
        Ok(fetch(access, "web-0", "http://web.default.svc.cluster.local/")?.starts_with("web-"))
    })
}

fn volume_pod(name: &str, class: &str, size: &str) -> Value {
    let mut user = pod(
        name,
        "[ -e /data/word ] || echo kept > /data/word; exec sleep 100000",
    );
    user["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    user["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}}});
    json!({"apiVersion": "v1", "kind": "List", "items": [claim, user]})
}

fn wait_for_pod(access: &Access, name: &str) -> Result<()> {
    access
        .kubectl([
            "wait",
            "--for=condition=Ready",
            &format!("pod/{name}"),
            "--timeout=120s",
        ])
        .map(|_| ())
}

fn volumes(region: &Region, access: &Access) -> Result<()> {
    for (class, name) in [("local", "folder"), ("local-xfs", "disk")] {
        let objects = volume_pod(name, class, "320Mi").to_string();
        access.apply(&objects)?;
        wait_for_pod(access, name)?;
        access.kubectl(["delete", "pod", name, "--now"])?;
        access.apply(&objects)?;
        wait_for_pod(access, name)?;
        ensure!(
            access.exec(name, &["cat", "/data/word"])?.trim() == "kept",
            "a volume outlives its pod"
        );
    }
    // a real size limit, and growth while in use
    let full = access
        .exec(
            "disk",
            &["dd", "if=/dev/zero", "of=/data/big", "bs=1M", "count=400"],
        )
        .unwrap_err();
    ensure!(full.to_string().contains("No space left"), "{full}");
    access.exec("disk", &["rm", "/data/big"])?;
    access.kubectl([
        "patch",
        "pvc",
        "disk",
        "-p",
        r#"{"spec":{"resources":{"requests":{"storage":"640Mi"}}}}"#,
    ])?;
    progress::wait_until("the grown volume", Duration::from_mins(3), || {
        Ok(access.get(["pvc", "disk"])?["status"]["capacity"]["storage"] == "640Mi")
    })?;
    access.exec(
        "disk",
        &["dd", "if=/dev/zero", "of=/data/big", "bs=1M", "count=400"],
    )?;
    for name in ["folder", "disk"] {
        access.kubectl(["delete", "pod", name, "--now"])?;
        access.kubectl(["delete", "pvc", name])?;
    }
    progress::wait_until("removed volumes", Duration::from_mins(2), || {
        Ok(std::fs::read_dir(region.folder().join("pool"))?
            .next()
            .is_none())
    })
}

fn power_failure(region: &Region, access: &Access) -> Result<()> {
    let victim = format!("{REGION}-c");
    region.kill_node("c")?;
    progress::wait_until("the loss to be noticed", Duration::from_mins(2), || {
        Ok(!region.ready_nodes()?.contains(&victim))
    })?;
    region.start_node("c")?;
    progress::wait_until("the node to be back", Duration::from_mins(3), || {
        Ok(region.ready_nodes()?.contains(&victim))
    })?;
    wait_for_ready_set(access)
}

fn exercise(region: &Region) -> Result<()> {
    let access = region.access()?;
    assert_eq!(region.ready_nodes()?.len(), 3);
    pods_services_and_names(&access)?;
    volumes(region, &access)?;
    power_failure(region, &access)?;
    // a region that is up stays up
    Region::up(REGION, &Settings::default())?;
    // ended with volumes in use: their loop devices must go too
    access.apply(&volume_pod("left", "local-xfs", "320Mi").to_string())?;
    wait_for_pod(&access, "left")
}

#[test]
fn a_region_works_and_leaves_nothing_behind() {
    if !machine::can_hold_kubernetes() {
        return;
    }
    assert_eq!(
        Traces::of(REGION),
        Traces::none(),
        "left from an earlier run: cargo xtask down {REGION}"
    );
    let region = Region::up(REGION, &Settings::default()).unwrap();
    let worked = exercise(&region);
    if worked.is_err() {
        eprintln!(
            "{}",
            region
                .kubectl(["get", "pods,pvc,events", "-A"])
                .unwrap_or_default()
        );
    }
    let during = Traces::of(REGION);
    assert_ne!(during, Traces::none(), "the comparison sees nothing");
    region.down().unwrap();
    worked.unwrap();
    assert_eq!(Traces::of(REGION), Traces::none());
}
