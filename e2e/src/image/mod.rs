//! `cargo xtask image`: container images from scratch, without Docker: a static program, CA certificates, nothing else.

pub mod archive;

use crate::kubernetes::machine;
use crate::progress::{Step, say};
use crate::{paths, process};
use anyhow::{Context, Result, bail, ensure};
use archive::{Image, Item};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Rust target of static programs.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// Larger archives are refused.
const LIMIT_BYTES: u64 = 60 * 1000 * 1000;
/// The user that programs run as; the number that Google's distroless images call `nonroot`.
const USER: u64 = 65_532;
/// Where Debian and most others keep the CA certificates.
const CA_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Where the programs' TLS looks for them.
const CA_INSIDE: &str = "etc/ssl/certs/ca-certificates.crt";

/// What the command line says.
#[derive(Debug, clap::Args)]
#[group(id = "image-options")]
pub struct Options {
    /// Only the node's image.
    #[arg(long)]
    pub node: bool,
    /// Only the operator's image.
    #[arg(long)]
    pub operator: bool,
    /// The cargo profile; `dev` builds faster and runs slower.
    #[arg(long, env = "HELENUS_IMAGE_PROFILE", default_value = "release")]
    pub image_profile: String,
}

impl Default for Options {
    fn default() -> Self {
        let image_profile =
            std::env::var("HELENUS_IMAGE_PROFILE").unwrap_or_else(|_| "release".into());
        Self {
            node: false,
            operator: false,
            image_profile,
        }
    }
}

/// A package that becomes an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The database node.
    Node,
    /// The operator.
    Operator,
}

impl Part {
    /// Package, program and last part of the image's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "helenus",
            Self::Operator => "helenus-operator",
        }
    }

    /// Repository of the image, without the tag.
    pub fn repository(self) -> String {
        format!("helenus.dev/{}", self.name())
    }

    /// Name of the image.
    pub fn image(self) -> String {
        format!("{}:{TAG}", self.repository())
    }

    /// Where the archive is written.
    pub fn archive(self) -> PathBuf {
        paths::workspace()
            .join("target/images")
            .join(format!("{}.tar", self.name()))
    }
}

/// Tag of images that are built here.
pub const TAG: &str = "dev";

/// Builds the chosen images (both when none is chosen); returns their archives.
pub fn build(options: &Options) -> Result<Vec<PathBuf>> {
    let both = options.node == options.operator;
    let mut parts = Vec::new();
    if options.node || both {
        parts.push(Part::Node);
    }
    if options.operator || both {
        parts.push(Part::Operator);
    }
    prepare()?;
    compile(&parts, &options.image_profile)?;
    parts
        .into_iter()
        .map(|part| pack(part, &options.image_profile))
        .collect()
}

/// Sets up what a new machine lacks for static builds.
fn prepare() -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("images are built on Linux on x86-64 only for now");
    }
    let installed = process::run("rustup", ["target", "list", "--installed"]).unwrap_or_default();
    if !installed.lines().any(|line| line == TARGET) {
        say(&format!("adding the Rust target {TARGET}"));
        process::run("rustup", ["target", "add", TARGET])
            .context("add the Rust target for static programs; without rustup, install your system's package of it")?;
    }
    let mut missing = Vec::new();
    if !process::succeeds("musl-gcc", ["--version"]) {
        missing.push("musl-tools");
    }
    if !Path::new(CA_CERTIFICATES).exists() {
        missing.push("ca-certificates");
    }
    machine::install(&missing)
}

/// cargo's folder of a profile's programs.
fn programs(profile: &str) -> Result<PathBuf> {
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(paths::cargo_target("target")?.join(TARGET).join(folder))
}

fn compile(parts: &[Part], profile: &str) -> Result<()> {
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    let step = Step::begin(&format!(
        "building {} for {TARGET}, profile {profile}",
        names.join(" and ")
    ));
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(paths::workspace()).args([
        "build",
        "--locked",
        "--target",
        TARGET,
        "--profile",
        profile,
    ]);
    for name in names {
        command.args(["--package", name, "--bin", name]);
    }
    command.env("CARGO_TARGET_DIR", paths::cargo_target("target")?);
    // C parts (zstd, ring, the allocator) have to be built for musl as well
    command.env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    // names of functions stay for backtraces, the rest of the debug information does not fit
    for profile in ["RELEASE", "DEV"] {
        command.env(format!("CARGO_PROFILE_{profile}_DEBUG"), "0");
        command.env(format!("CARGO_PROFILE_{profile}_STRIP"), "debuginfo");
    }
    let status = command
        .status()
        .with_context(|| format!("start {}", process::line_of(&command)))?;
    ensure!(
        status.success(),
        "{}: {status}; the compiler's messages are above",
        process::line_of(&command)
    );
    step.done();
    Ok(())
}

fn pack(part: Part, profile: &str) -> Result<PathBuf> {
    let program = programs(profile)?.join(part.name());
    let path = part.archive();
    let size = image(part, &program)?.write(&path)?;
    if size > LIMIT_BYTES {
        fs::remove_file(&path).context("remove the archive that is too large")?;
        bail!(
            "{} would have {} MB; the limit is {} MB",
            path.display(),
            size / 1_000_000,
            LIMIT_BYTES / 1_000_000
        );
    }
    say(&format!(
        "{}: {}, {:.1} MB",
        part.image(),
        path.display(),
        f64::from(u32::try_from(size)?) / 1e6
    ));
    Ok(path)
}

fn image(part: Part, program: &Path) -> Result<Image> {
    let content = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    ensure!(
        !names_an_interpreter(&content),
        "{} is not a static program",
        program.display()
    );
    let certificates =
        fs::read(CA_CERTIFICATES).with_context(|| format!("read {CA_CERTIFICATES}"))?;
    let mut image = Image::new(&part.image());
    let users = format!(
        "root:x:0:0:root:/:/none\nhelenus:x:{USER}:{USER}:helenus:/var/lib/helenus:/none\n"
    );
    let groups = format!("root:x:0:\nhelenus:x:{USER}:\n");
    let data = "var/lib/helenus";
    image.items = ["etc", "etc/ssl", "etc/ssl/certs"]
        .map(|folder| Item::folder(folder, 0o755))
        .to_vec();
    image.items.push(Item::folder("tmp", 0o1777));
    image.items.push(Item::file("etc/passwd", 0o644, users));
    image.items.push(Item::file("etc/group", 0o644, groups));
    image.items.push(Item::file(CA_INSIDE, 0o644, certificates));
    if part == Part::Node {
        image
            .items
            .extend(["var", "var/lib"].map(|folder| Item::folder(folder, 0o755)));
        image.items.push(Item::folder(data, 0o755).owned_by(USER));
        image.volumes = vec![format!("/{data}")];
    }
    image.items.push(Item::file(part.name(), 0o755, content));
    image.entrypoint = vec![format!("/{}", part.name())];
    image
        .environment
        .push(format!("SSL_CERT_FILE=/{CA_INSIDE}"));
    image.user = Some(USER);
    image.labels = vec![("org.opencontainers.image.title".into(), part.name().into())];
    Ok(image)
}

/// Whether an ELF program asks for a dynamic loader (program header PT_INTERP), which an image from scratch lacks.
fn names_an_interpreter(elf: &[u8]) -> bool {
    let number = |at: usize, len: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(len)?)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte)),
        )
    };
    // ELF64, little endian: e_phoff at 32, e_phentsize at 54, e_phnum at 56; p_type comes first
    let (Some(start), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2))
    else {
        return false;
    };
    (0..count).any(|index| {
        let at = usize::try_from(start.saturating_add(index * size)).unwrap_or(usize::MAX);
        number(at, 4) == Some(3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_programs_are_noticed() {
        let dynamic = fs::read("/bin/ls").unwrap();
        assert!(names_an_interpreter(&dynamic));
        assert!(!names_an_interpreter(b""));
        assert!(!names_an_interpreter(&dynamic[..60]));
    }
}
