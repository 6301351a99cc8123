//! Image archives: one tar that is an OCI layout and, beside it, what `docker load` reads.
//!
//! A1: the same content gives the same bytes: no times, fixed owners, fixed order.
//! Formats: OCI image layout and image specification 1.0; Docker's `manifest.json` names the same blobs.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// One file, folder or link of an image.
#[derive(Debug, Clone)]
pub struct Item {
    path: String,
    mode: u32,
    owner: u64,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    File(Vec<u8>),
    Folder,
    Link(String),
}

impl Item {
    /// A file.
    pub fn file(path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            mode,
            owner: 0,
            content: Content::File(content.into()),
        }
    }

    /// A folder.
    pub fn folder(path: &str, mode: u32) -> Self {
        Self {
            path: path.into(),
            mode,
            owner: 0,
            content: Content::Folder,
        }
    }

    /// A symbolic link.
    pub fn link(path: &str, target: &str) -> Self {
        Self {
            path: path.into(),
            mode: 0o777,
            owner: 0,
            content: Content::Link(target.into()),
        }
    }

    /// The same, owned by a user and the group of the same number.
    #[must_use]
    pub fn owned_by(self, owner: u64) -> Self {
        Self { owner, ..self }
    }
}

/// An image with one layer.
#[derive(Debug, Clone)]
pub struct Image {
    /// Name with tag.
    pub name: String,
    /// What is in it.
    pub items: Vec<Item>,
    /// Program and first arguments.
    pub entrypoint: Vec<String>,
    /// Variables, `NAME=value`.
    pub environment: Vec<String>,
    /// User (and group) number that the program runs as.
    pub user: Option<u64>,
    /// Folders that are volumes.
    pub volumes: Vec<String>,
    /// Annotations for people.
    pub labels: Vec<(String, String)>,
}

impl Image {
    /// An empty image.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            items: Vec::new(),
            entrypoint: Vec::new(),
            environment: vec!["PATH=/usr/local/bin:/usr/bin:/bin:/sbin:/".into()],
            user: None,
            volumes: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Writes the archive; returns its size in bytes.
    pub fn write(&self, path: &Path) -> Result<u64> {
        let folder = path.parent().context("an archive lies in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("make folder {}", folder.display()))?;
        let bytes = self
            .to_bytes()
            .with_context(|| format!("pack image {}", self.name))?;
        // never a half-written archive under the final name
        let temporary = path.with_extension("tar.new");
        fs::write(&temporary, &bytes).with_context(|| format!("write {}", temporary.display()))?;
        fs::rename(&temporary, path).with_context(|| format!("write {}", path.display()))?;
        Ok(bytes.len() as u64)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let layer = self.layer()?;
        let mut blobs = Blobs::default();
        let layer_digest = digest(&layer);
        let layer = blobs.add(layer, "application/vnd.oci.image.layer.v1.tar");
        let config = blobs.add(
            self.config(&layer_digest),
            "application/vnd.oci.image.config.v1+json",
        );
        let manifest_kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": manifest_kind, "config": config, "layers": [layer]});
        let mut entry = blobs.add(manifest.to_string().into_bytes(), manifest_kind);
        let tag = self.name.rsplit(':').next().unwrap_or("latest");
        entry["annotations"] = json!({"io.containerd.image.name": self.name, "org.opencontainers.image.ref.name": tag});
        let index_kind = "application/vnd.oci.image.index.v1+json";
        let index = json!({"schemaVersion": 2, "mediaType": index_kind, "manifests": [entry]});
        let docker = json!([{
            "Config": blob_path(&config), "RepoTags": [self.name], "Layers": [blob_path(&layer)]}]);
        let mut archive = Builder::new(Vec::new());
        let mut put =
            |path: &str, content: &[u8]| add(&mut archive, &Item::file(path, 0o644, content));
        put("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        put("index.json", index.to_string().as_bytes())?;
        put("manifest.json", docker.to_string().as_bytes())?;
        for (digest, content) in &blobs.0 {
            put(&format!("blobs/sha256/{digest}"), content)?;
        }
        archive.into_inner().context("close the archive")
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        for item in &self.items {
            add(&mut layer, item)?;
        }
        layer.into_inner().context("close the layer")
    }

    fn config(&self, layer_digest: &str) -> Vec<u8> {
        let mut run = json!({"Env": self.environment, "WorkingDir": "/"});
        if !self.entrypoint.is_empty() {
            run["Entrypoint"] = json!(self.entrypoint);
        }
        if let Some(user) = self.user {
            run["User"] = json!(format!("{user}:{user}"));
        }
        for volume in &self.volumes {
            run["Volumes"][volume] = json!({});
        }
        for (name, value) in &self.labels {
            run["Labels"][name] = json!(value);
        }
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": run,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        });
        config.to_string().into_bytes()
    }
}

/// Content by digest, in the order in which it was added.
#[derive(Default)]
struct Blobs(Vec<(String, Vec<u8>)>);

impl Blobs {
    /// Adds a blob and returns its descriptor.
    fn add(&mut self, content: Vec<u8>, media_type: &str) -> Value {
        let digest = digest(&content);
        let descriptor = json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len()});
        self.0.push((digest, content));
        descriptor
    }
}

fn blob_path(descriptor: &Value) -> String {
    let digest = descriptor["digest"].as_str().unwrap_or_default();
    format!("blobs/{}", digest.replace(':', "/"))
}

/// SHA-256, in hexadecimal digits.
pub fn digest(content: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(content) {
        write!(text, "{byte:02x}").ok();
    }
    text
}

fn add(archive: &mut Builder<Vec<u8>>, item: &Item) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(item.mode);
    header.set_uid(item.owner);
    header.set_gid(item.owner);
    header.set_mtime(0);
    header.set_size(0);
    let about = || format!("pack {}", item.path);
    match &item.content {
        Content::File(content) => {
            header.set_entry_type(EntryType::Regular);
            header.set_size(content.len() as u64);
            archive
                .append_data(&mut header, &item.path, content.as_slice())
                .with_context(about)
        }
        Content::Folder => {
            header.set_entry_type(EntryType::Directory);
            archive
                .append_data(&mut header, &item.path, std::io::empty())
                .with_context(about)
        }
        Content::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            archive
                .append_link(&mut header, &item.path, target)
                .with_context(about)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn sample() -> Image {
        let mut image = Image::new("helenus.dev/sample:1");
        image
            .items
            .push(Item::folder("var/lib/helenus", 0o755).owned_by(65_532));
        image.items.push(Item::file("helenus", 0o755, "program"));
        image.items.push(Item::link("bin", "/"));
        image.entrypoint = vec!["/helenus".into()];
        image.user = Some(65_532);
        image.volumes = vec!["/var/lib/helenus".into()];
        image
    }

    fn unpack(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(bytes).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(entry.path().unwrap().display().to_string(), content);
        }
        files
    }

    #[test]
    fn a1_the_same_content_gives_the_same_bytes() {
        assert_eq!(sample().to_bytes().unwrap(), sample().to_bytes().unwrap());
    }

    #[test]
    fn every_descriptor_leads_to_a_blob_of_its_size() {
        let files = unpack(&sample().to_bytes().unwrap());
        let json = |name: &str| -> Value { serde_json::from_slice(&files[name]).unwrap() };
        let blob = |descriptor: &Value| {
            let content = &files[&blob_path(descriptor)];
            assert_eq!(descriptor["size"].as_u64().unwrap(), content.len() as u64);
            assert_eq!(descriptor["digest"], format!("sha256:{}", digest(content)));
            content.clone()
        };
        let manifest: Value =
            serde_json::from_slice(&blob(&json("index.json")["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            format!("sha256:{}", digest(&layer))
        );
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(unpack(&layer)["helenus"], b"program");
        // Docker's list names the same blobs
        let docker = &json("manifest.json")[0];
        assert_eq!(docker["Config"], blob_path(&manifest["config"]));
        assert_eq!(docker["Layers"][0], blob_path(&manifest["layers"][0]));
        assert_eq!(docker["RepoTags"][0], "helenus.dev/sample:1");
    }
}
