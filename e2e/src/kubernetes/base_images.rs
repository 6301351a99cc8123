//! The two images that every node holds: `helenus.dev/pause:1` for pods themselves and `helenus.dev/busybox:1` for tests.

use super::programs;
use crate::image::archive::{Image, Item};
use crate::process;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// Name of the image for tests.
pub const BUSYBOX: &str = "helenus.dev/busybox:1";
const PAUSE: &str = "helenus.dev/pause:1";

fn archive(name: &str) -> Result<PathBuf> {
    Ok(programs::home()?.join("images").join(format!("{name}.tar")))
}

/// Names and archives of the base images.
pub fn all() -> Result<Vec<(&'static str, PathBuf)>> {
    Ok(vec![
        (PAUSE, archive("pause")?),
        (BUSYBOX, archive("busybox")?),
    ])
}

/// Writes the archives that are not there yet.
pub fn ensure() -> Result<()> {
    let pause = archive("pause")?;
    if !pause.exists() {
        let program = fs::read(programs::program("pause")?).context("read the pause program")?;
        let mut image = Image::new(PAUSE);
        image.items.push(Item::file("pause", 0o755, program));
        image.entrypoint = vec!["/pause".into()];
        image.write(&pause)?;
    }
    let busybox = archive("busybox")?;
    if !busybox.exists() {
        busybox_image()?.write(&busybox)?;
    }
    Ok(())
}

fn busybox_image() -> Result<Image> {
    let program = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .find_map(|path| fs::read(path).ok());
    let program = program.context("read busybox: is the package busybox-static installed?")?;
    let mut image = Image::new(BUSYBOX);
    for folder in ["bin", "etc", "root", "usr", "var"] {
        image.items.push(Item::folder(folder, 0o755));
    }
    image.items.push(Item::folder("tmp", 0o1777));
    image.items.push(Item::file("bin/busybox", 0o755, program));
    for applet in process::run("busybox", ["--list"])?
        .lines()
        .filter(|applet| *applet != "busybox")
    {
        image
            .items
            .push(Item::link(&format!("bin/{applet}"), "busybox"));
    }
    let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n";
    image.items.push(Item::file("etc/passwd", 0o644, users));
    image.items.push(Item::file(
        "etc/group",
        0o644,
        "root:x:0:\nnobody:x:65534:\n",
    ));
    Ok(image)
}
