//! How a Kubernetes is reached, the local one or one of the user's: kubectl and helm with the right options.

use super::programs;
use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// kubectl and helm for one Kubernetes.
#[derive(Debug, Clone)]
pub struct Access {
    kubectl: PathBuf,
    helm: PathBuf,
    /// A context of the user's kubeconfig.
    context: Option<String>,
    /// A kubeconfig of ours.
    kubeconfig: Option<PathBuf>,
}

impl Access {
    /// The Kubernetes that a kubeconfig leads to, with the programs built here.
    pub fn by_kubeconfig(kubeconfig: PathBuf) -> Result<Self> {
        let (kubectl, helm) = (programs::program("kubectl")?, programs::program("helm")?);
        Ok(Self {
            kubectl,
            helm,
            context: None,
            kubeconfig: Some(kubeconfig),
        })
    }

    /// The Kubernetes that a context of the user's kubeconfig names, with the user's programs or those built here.
    pub fn by_context(context: &str) -> Result<Self> {
        let kubectl = Self::find("kubectl", &["version", "--client"])?;
        let helm = Self::find("helm", &["version"])?;
        let this = Self {
            kubectl,
            helm,
            context: Some(context.to_owned()),
            kubeconfig: None,
        };
        this.kubectl(["get", "--raw", "/version"]).with_context(|| {
            format!("reach the Kubernetes of context {context}; `kubectl config get-contexts` lists what there is")
        })?;
        Ok(this)
    }

    fn find(name: &str, probe: &[&str]) -> Result<PathBuf> {
        let candidates = [PathBuf::from(name), programs::program(name)?];
        for candidate in candidates {
            if process::succeeds(&candidate, probe) {
                return Ok(candidate);
            }
        }
        bail!(
            "{name} is not in the PATH: install it, or build it here with `cargo xtask kubernetes build`"
        )
    }

    /// The words of a kubectl command line, for people.
    pub fn kubectl_words(&self) -> String {
        match &self.context {
            Some(context) => format!("kubectl --context {context}"),
            None => "cargo xtask kubectl".to_owned(),
        }
    }

    fn command<I, S>(&self, program: &PathBuf, context_option: &str, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Command::new(program);
        if let Some(context) = &self.context {
            command.args([context_option, context]);
        }
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        command.args(arguments);
        command
    }

    /// A kubectl command.
    pub fn kubectl_command<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.command(&self.kubectl, "--context", arguments)
    }

    /// Runs kubectl and returns what it printed.
    pub fn kubectl<I, S>(&self, arguments: I) -> Result<String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        process::finish(self.kubectl_command(arguments), None)
    }

    /// Runs kubectl on this terminal.
    pub fn kubectl_interactive(&self, arguments: &[String]) -> Result<ExitCode> {
        let status = self
            .kubectl_command(arguments)
            .status()
            .context("start kubectl")?;
        Ok(status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from))
    }

    /// `kubectl get … -o json`.
    pub fn get<I, S>(&self, arguments: I) -> Result<Value>
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let mut all = vec!["get".to_owned()];
        all.extend(arguments.into_iter().map(Into::into));
        all.extend(["-o".to_owned(), "json".to_owned()]);
        serde_json::from_str(&self.kubectl(all)?).context("understand kubectl's answer")
    }

    /// `kubectl apply` of objects given as JSON or YAML.
    pub fn apply(&self, objects: &str) -> Result<String> {
        process::finish(self.kubectl_command(["apply", "-f", "-"]), Some(objects))
    }

    /// The objects that a manifest names, as they are in the cluster.
    pub fn get_named_in(&self, manifest: &str) -> Result<Value> {
        let command = self.kubectl_command(["get", "-f", "-", "-o", "json"]);
        serde_json::from_str(&process::finish(command, Some(manifest))?)
            .context("understand kubectl's answer")
    }

    /// Runs a program in a pod.
    pub fn exec(&self, pod: &str, command: &[&str]) -> Result<String> {
        self.kubectl(["exec", pod, "--"].iter().chain(command))
    }

    /// Runs helm and returns what it printed.
    pub fn helm<I, S>(&self, arguments: I) -> Result<String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        process::finish(self.command(&self.helm, "--kube-context", arguments), None)
    }
}
