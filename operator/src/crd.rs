//! The custom resource definitions as files of the Helm chart.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use helenus_crds::{CassandraCluster, CassandraNode};
use kube::CustomResourceExt;

/// Every definition: file name and text.
pub fn definitions() -> anyhow::Result<Vec<(&'static str, String)>> {
    let head = "# Made by `helenus-operator crd --out charts/helenus-operator/crds` from the types in crds/; do not edit.\n";
    let text = |crd| {
        anyhow::Ok(format!(
            "{head}{}",
            serde_yaml_ng::to_string(&crd).context("write a definition as YAML")?
        ))
    };
    Ok(vec![
        (
            "cassandraclusters.helenus.dev.yaml",
            text(CassandraCluster::crd())?,
        ),
        (
            "cassandranodes.helenus.dev.yaml",
            text(CassandraNode::crd())?,
        ),
    ])
}

/// Writes every definition to a folder, or to standard output.
pub fn write(folder: Option<&Path>) -> anyhow::Result<()> {
    for (name, text) in definitions()? {
        if let Some(folder) = folder {
            std::fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
        } else {
            write!(std::io::stdout(), "---\n{text}").context("write to standard output")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_charts_definitions_are_those_of_the_types() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../charts/helenus-operator/crds");
        for (name, text) in super::definitions().unwrap() {
            let there = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(
                there == text,
                "{name} is not current: run `cargo run -p helenus-operator -- crd --out charts/helenus-operator/crds`"
            );
        }
    }
}
