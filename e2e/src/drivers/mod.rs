//! The smoke tests of drivers in `e2e/drivers`: installing each driver once, and running its program against a node.
//!
//! D1: a program passes only when it ended with 0, printed its summary, and the summary says that nothing failed and
//! something passed.

use crate::oracle::child::{cache, output};
use crate::oracle::java;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A driver with a program in `e2e/drivers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// cassandra-driver of Python.
    Python,
    /// The shell.
    Cqlsh,
    /// The Java driver.
    Java,
    /// gocql.
    Go,
    /// cassandra-driver of Node.js.
    Node,
}

/// What a program reported.
#[derive(Debug)]
pub struct Report {
    /// Checks that passed.
    pub passed: usize,
    /// Lines of checks that failed.
    pub failed: Vec<String>,
    /// All it printed.
    pub output: String,
    /// Did it end well?
    pub success: bool,
}

impl Driver {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Python, Self::Cqlsh, Self::Java, Self::Go, Self::Node];

    /// The folder's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Cqlsh => "cqlsh",
            Self::Java => "java",
            Self::Go => "go",
            Self::Node => "node",
        }
    }

    /// The program's folder in the repository.
    fn source(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("drivers")
            .join(self.name())
    }

    /// The files whose change means that the driver must be installed again.
    fn pins(self) -> &'static [&'static str] {
        match self {
            Self::Python | Self::Cqlsh => &["requirements.txt"],
            Self::Java => &["pom.xml"],
            Self::Go => &["go.mod", "go.sum", "main.go"],
            Self::Node => &["package.json", "package-lock.json"],
        }
    }

    /// Install the driver when it is not there in the pinned version, and return its folder.
    pub fn install(self) -> Result<PathBuf> {
        let folder = cache()?.join("drivers").join(self.name());
        let mut wanted = String::new();
        for name in self.pins() {
            let path = self.source().join(name);
            wanted += &std::fs::read_to_string(&path)
                .with_context(|| format!("read {}", path.display()))?;
        }
        let marker = folder.join("installed");
        if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
            return Ok(folder);
        }
        eprintln!(
            "installing the {} driver into {} (once)",
            self.name(),
            folder.display()
        );
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        self.install_into(&folder)
            .with_context(|| format!("install the {} driver", self.name()))?;
        std::fs::write(marker, wanted)?;
        Ok(folder)
    }

    fn install_into(self, folder: &Path) -> Result<()> {
        let source = self.source();
        match self {
            Self::Python | Self::Cqlsh => {
                output(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
                let pip = folder.join("bin/pip");
                output(
                    Command::new(pip)
                        .args(["install", "--quiet", "-r"])
                        .arg(source.join("requirements.txt")),
                )?;
            }
            Self::Java => java::maven(&source.join("pom.xml"), &folder.join("lib"))?,
            Self::Go => {
                output(
                    Command::new("go")
                        .args(["build", "-o"])
                        .arg(folder.join("smoke"))
                        .arg(".")
                        .current_dir(&source),
                )?;
            }
            Self::Node => {
                for name in self.pins() {
                    std::fs::copy(source.join(name), folder.join(name))?;
                }
                output(
                    Command::new("npm")
                        .args(["ci", "--no-audit", "--no-fund"])
                        .current_dir(folder),
                )?;
            }
        }
        Ok(())
    }

    /// Run the program against these nodes.
    pub fn run(self, hosts: &[&str], datacenter: &str) -> Result<Report> {
        let (folder, source) = (self.install()?, self.source());
        let command = match self {
            Self::Python | Self::Cqlsh => {
                let mut command = Command::new(folder.join("bin/python"));
                command.arg(source.join("smoke.py"));
                command
            }
            Self::Java => {
                let mut command = Command::new("java");
                command
                    .arg("-XX:TieredStopAtLevel=1")
                    .arg("-cp")
                    .arg(folder.join("lib/*"))
                    .arg(source.join("Smoke.java"));
                command
            }
            Self::Go => Command::new(folder.join("smoke")),
            Self::Node => {
                let mut command = Command::new("node");
                command
                    .env("NODE_PATH", folder.join("node_modules"))
                    .arg(source.join("smoke.js"));
                command
            }
        };
        // five minutes are far more than any of them needs; timeout is of coreutils and ends them all the same
        let mut limited = Command::new("timeout");
        limited
            .arg("300")
            .arg(command.get_program())
            .args(command.get_args());
        limited.envs(
            command
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        );
        let done = limited
            .arg(hosts.join(","))
            .arg(datacenter)
            .stdin(Stdio::null())
            .output()?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(Report::read(text, done.status.success()))
    }
}

impl Report {
    fn read(output: String, success: bool) -> Self {
        let failed = output
            .lines()
            .filter(|line| line.starts_with("FAILED"))
            .map(str::to_owned)
            .collect();
        let passed = output
            .lines()
            .filter(|line| line.starts_with("ok "))
            .count();
        Self {
            passed,
            failed,
            output,
            success,
        }
    }

    /// An error unless everything passed (D1).
    pub fn verdict(&self) -> Result<()> {
        let summary = format!("{} passed, {} failed", self.passed, self.failed.len());
        if !self.failed.is_empty() {
            bail!("{summary}\n{}", self.failed.join("\n"));
        }
        if !self.success || self.passed == 0 || !self.output.contains(&summary) {
            bail!("the program ended early ({summary}):\n{}", self.output);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_program_that_ends_early_does_not_pass() {
        assert!(
            Report::read("ok a\nok b\n2 passed, 0 failed\n".into(), true)
                .verdict()
                .is_ok()
        );
        assert!(
            Report::read("ok a\nok b\n2 passed, 0 failed\n".into(), false)
                .verdict()
                .is_err()
        );
        assert!(Report::read("ok a\nok b\n".into(), true).verdict().is_err());
        assert!(
            Report::read("0 passed, 0 failed\n".into(), true)
                .verdict()
                .is_err()
        );
        assert!(
            Report::read("ok a\nFAILED b: c\n1 passed, 1 failed\n".into(), false)
                .verdict()
                .is_err()
        );
    }
}
