//! What is remembered on disk about the regions of this machine: one folder each under `kubernetes/state`.

use super::layout::Layout;
use super::programs;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Folder of all regions.
pub fn root() -> Result<PathBuf> {
    Ok(programs::home()?.join("state"))
}

/// Folder of one region.
pub fn folder(region: &str) -> Result<PathBuf> {
    Ok(root()?.join(region))
}

/// Remembers a region.
pub fn save(layout: &Layout) -> Result<()> {
    let path = folder(&layout.name)?.join("region.json");
    let text = serde_json::to_string_pretty(layout).context("write down the region")?;
    crate::paths::write_if_changed(&path, &text).map(|_| ())
}

/// What is remembered of a region; `None` when it is not there.
pub fn load(region: &str) -> Result<Option<Layout>> {
    let path = folder(region)?.join("region.json");
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("read {}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

/// Names of all regions that have a folder, whole or not, in order.
pub fn names() -> Result<Vec<String>> {
    let root = root()?;
    let Ok(entries) = fs::read_dir(&root) else {
        return Ok(Vec::new());
    };
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// All remembered regions but one.
pub fn others(than: &str) -> Result<Vec<Layout>> {
    let mut found = Vec::new();
    for name in names()? {
        if name != than {
            found.extend(load(&name)?);
        }
    }
    Ok(found)
}

/// Keeps two commands from changing regions at the same time, until it is dropped.
pub struct Lock(#[expect(dead_code, reason = "holding the open file is holding the lock")] File);

/// Waits for its turn to change regions.
pub fn lock() -> Result<Lock> {
    let home = programs::home()?;
    fs::create_dir_all(&home).with_context(|| format!("make folder {}", home.display()))?;
    let path = home.join("lock");
    let file = File::create(&path).with_context(|| format!("open {}", path.display()))?;
    if file.try_lock().is_err() {
        crate::progress::say("another command is changing the local Kubernetes; waiting for it");
        file.lock()
            .with_context(|| format!("lock {}", path.display()))?;
    }
    Ok(Lock(file))
}

/// Folders that were missing on the machine and that a box needed as mount points; `down` removes them again.
fn made_folders() -> Result<PathBuf> {
    Ok(programs::home()?.join("made-folders"))
}

/// Makes a folder with its parents and remembers those that were missing.
pub fn make_folder(path: &Path) -> Result<()> {
    let missing: Vec<PathBuf> = path
        .ancestors()
        .take_while(|folder| !folder.exists())
        .map(Path::to_path_buf)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = made_folders()?;
    let mut text = fs::read_to_string(&list).unwrap_or_default();
    for folder in &missing {
        writeln!(text, "{}", folder.display())?;
    }
    fs::write(&list, text).with_context(|| format!("write {}", list.display()))?;
    fs::create_dir_all(path).with_context(|| format!("make folder {}", path.display()))
}

/// Removes the remembered folders, as far as they are empty.
pub fn remove_made_folders() -> Result<()> {
    let list = made_folders()?;
    let text = fs::read_to_string(&list).unwrap_or_default();
    let mut folders: Vec<&str> = text.lines().collect();
    folders.sort_unstable_by_key(|folder| std::cmp::Reverse(folder.len()));
    for folder in folders {
        // one that somebody else has filled in the meantime stays
        fs::remove_dir(folder).ok();
    }
    match fs::remove_file(&list) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("forget the made folders")
        }
        _ => Ok(()),
    }
}
