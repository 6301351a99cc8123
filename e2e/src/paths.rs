//! Where things lie: the workspace, the cache folder and the folders of builds.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The root of the workspace: the folder that holds the top `Cargo.toml`.
///
/// Known at build time, because the tests and the developer commands always run in the clone that built them.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// What is kept between runs: `$HELENUS_CACHE`, else `~/.cache/helenus`.
pub fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("HELENUS_CACHE") {
        return Ok(PathBuf::from(folder));
    }
    let home = std::env::var_os("HOME")
        .context("find the cache folder: neither HELENUS_CACHE nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/helenus"))
}

/// The folder of a cargo build: `$CARGO_TARGET_DIR`, else `NAME` in the cache folder.
pub fn cargo_target(name: &str) -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => Ok(workspace().join(folder)),
        None => Ok(cache()?.join(name)),
    }
}

/// The executable of `cargo xtask`, also when the caller is a test: there it lies one folder up.
pub fn xtask() -> Result<PathBuf> {
    let me = std::env::current_exe().context("find the running program")?;
    let me = without_deleted_mark(&me);
    if me.file_stem().is_some_and(|name| name == "xtask") {
        return Ok(me);
    }
    for folder in me.ancestors().skip(1).take(2) {
        let candidate = folder.join("xtask");
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    bail!(
        "no xtask beside {}: build it with `cargo build -p helenus-e2e --bin xtask`",
        me.display()
    )
}

/// Linux marks the path of a running program that was replaced by a newer build.
fn without_deleted_mark(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(&text))
}

/// Writes `content` unless the file already holds it; says whether it wrote.
///
/// kube-proxy ends itself when its configuration file is written to, so that “no change” must mean “no write”.
pub fn write_if_changed(path: &Path, content: &str) -> Result<bool> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == content) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("make folder {}", folder.display()))?;
    }
    std::fs::write(path, content).with_context(|| format!("write {}", path.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_files_are_not_written() {
        let path = std::env::temp_dir().join(format!("helenus-paths-{}/a/b", std::process::id()));
        assert!(write_if_changed(&path, "one").unwrap());
        assert!(!write_if_changed(&path, "one").unwrap());
        assert!(write_if_changed(&path, "two").unwrap());
        std::fs::remove_dir_all(path.parent().unwrap().parent().unwrap()).unwrap();
    }

    #[test]
    fn replaced_programs_are_still_found() {
        assert_eq!(
            without_deleted_mark(Path::new("/a/xtask (deleted)")),
            Path::new("/a/xtask")
        );
        assert_eq!(
            without_deleted_mark(Path::new("/a/xtask")),
            Path::new("/a/xtask")
        );
    }
}
