//! Two regions side by side: a pod of one reaches a pod of the other; the link is cut and mended.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what it did not expect"
)]

mod machine;

use anyhow::{Result, ensure};
use helenus_e2e::kubernetes::{Region, Settings, base_images, link};
use helenus_e2e::progress;
use machine::Traces;
use serde_json::json;
use std::time::Duration;

const EAST: &str = "test-east";
const WEST: &str = "test-west";

/// Starts a web server and returns its address.
fn serve(region: &Region) -> Result<String> {
    let access = region.access()?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": base_images::BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c",
            format!("mkdir /www; echo {} > /www/index.html; exec httpd -f -p 8080 -h /www", region.layout().name)]}]}});
    access.apply(&pod.to_string())?;
    access.kubectl(["wait", "--for=condition=Ready", "pod/web", "--timeout=120s"])?;
    let pod = access.get(["pod", "web"])?;
    Ok(pod["status"]["podIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

fn answer(from: &Region, address: &str) -> Result<String> {
    let url = format!("http://{address}:8080/");
    from.access()?
        .exec("web", &["timeout", "4", "wget", "-q", "-O", "-", &url])
        .map(|text| text.trim().to_owned())
}

fn exercise(east: &Region, west: &Region) -> Result<()> {
    let (in_east, in_west) = (serve(east)?, serve(west)?);
    assert_eq!(answer(east, &in_west)?, WEST);
    assert_eq!(answer(west, &in_east)?, EAST);
    link(east, west, false)?;
    ensure!(
        answer(east, &in_west).is_err() && answer(west, &in_east).is_err(),
        "the link is cut"
    );
    assert_eq!(
        answer(east, &in_east)?,
        EAST,
        "inside a region nothing changed"
    );
    link(east, west, true)?;
    progress::wait_until("the mended link", Duration::from_secs(30), || {
        Ok(answer(east, &in_west)? == WEST && answer(west, &in_east)? == EAST)
    })?;
    // names of the other region, by its own server
    progress::wait_until("the other region's names", Duration::from_mins(1), || {
        let found = east
            .access()?
            .exec("web", &["nslookup", "kubernetes.default.svc.west.local"])?;
        Ok(found.contains(&west.layout().first_service_ip()))
    })
}

#[test]
fn two_regions_reach_each_other() {
    if !machine::can_hold_kubernetes() {
        return;
    }
    let one_zone = |domain: &str| Settings {
        zones: vec!["a".into()],
        domain: domain.into(),
        ..Settings::default()
    };
    let east = Region::up(EAST, &one_zone("east.local")).unwrap();
    let west = Region::up(WEST, &one_zone("west.local")).unwrap();
    let worked = exercise(&east, &west);
    east.down().unwrap();
    // the other is still whole
    let still = west.ready_nodes().map(|nodes| nodes.len());
    west.down().unwrap();
    worked.unwrap();
    assert_eq!(still.unwrap(), 1);
    for region in [EAST, WEST] {
        assert_eq!(Traces::of(region), Traces::none());
    }
}
