//! Keys and certificates of a region, and the kubeconfig files that use them. Made with the openssl program.

use super::layout::Layout;
use crate::process;
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The region's key folder.
pub struct Certificates {
    folder: PathBuf,
}

/// Clients that get a certificate and a kubeconfig: name, common name, organization.
const CLIENTS: &[(&str, &str, Option<&str>)] = &[
    ("admin", "kubernetes-admin", Some("system:masters")),
    ("dns", "helenus-dns", Some("system:masters")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("proxy", "system:kube-proxy", None),
];

impl Certificates {
    /// Makes what is not there yet.
    pub fn ensure(layout: &Layout, region: &Path) -> Result<Self> {
        let this = Self {
            folder: region.join("pki"),
        };
        let mark = this.path("done");
        if mark.exists() {
            return Ok(this);
        }
        fs::create_dir_all(&this.folder).context("make the key folder")?;
        fs::write(
            this.path("openssl.conf"),
            "[req]\ndistinguished_name=dn\n[dn]\n",
        )
        .context("write openssl.conf")?;
        this.authority("ca")?;
        this.authority("front-ca")?;
        this.servers(layout)?;
        for (name, common, organization) in CLIENTS {
            this.certificate(name, common, *organization, &[], "ca")?;
            this.kubeconfig(layout, region, name)?;
        }
        for node in layout.nodes() {
            let names = [
                format!("DNS:{}", node.name),
                format!("IP:{}", layout.node_ip(&node)),
            ];
            let common = format!("system:node:{}", node.name);
            this.certificate(&node.name, &common, Some("system:nodes"), &names, "ca")?;
            this.kubeconfig(layout, region, &node.name)?;
        }
        let (key, public) = (this.text("sa.key"), this.text("sa.pub"));
        process::run(
            "openssl",
            [
                "ecparam",
                "-name",
                "prime256v1",
                "-genkey",
                "-noout",
                "-out",
                &key,
            ],
        )?;
        process::run("openssl", ["ec", "-in", &key, "-pubout", "-out", &public])?;
        fs::write(&mark, "").context("mark the keys as made")?;
        Ok(this)
    }

    /// A file of the key folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A file of the key folder, as text for command lines.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn servers(&self, layout: &Layout) -> Result<()> {
        let mut names: Vec<String> = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "localhost",
        ]
        .map(|name| format!("DNS:{name}"))
        .to_vec();
        names.push(format!("DNS:kubernetes.default.svc.{}", layout.domain));
        let addresses = [
            "127.0.0.1".to_owned(),
            layout.control_plane_ip(),
            layout.uplink_ip(),
            layout.first_service_ip(),
        ];
        names.extend(addresses.iter().map(|address| format!("IP:{address}")));
        self.certificate("apiserver", "kube-apiserver", None, &names, "ca")?;
        self.certificate(
            "apiserver-kubelet",
            "kube-apiserver-kubelet",
            Some("system:masters"),
            &[],
            "ca",
        )?;
        self.certificate("front-proxy", "front-proxy-client", None, &[], "front-ca")
    }

    fn authority(&self, name: &str) -> Result<()> {
        let extensions = [
            "basicConstraints=critical,CA:TRUE".to_owned(),
            "subjectKeyIdentifier=hash".to_owned(),
            "keyUsage=critical,digitalSignature,keyCertSign,cRLSign".to_owned(),
        ];
        self.request(name, &format!("/CN=helenus-{name}"), &extensions, None)
    }

    fn certificate(
        &self,
        name: &str,
        common: &str,
        organization: Option<&str>,
        alternatives: &[String],
        authority: &str,
    ) -> Result<()> {
        let mut extensions = vec![
            "basicConstraints=CA:FALSE".to_owned(),
            "keyUsage=digitalSignature".to_owned(),
            "authorityKeyIdentifier=keyid".to_owned(),
            "extendedKeyUsage=serverAuth,clientAuth".to_owned(),
        ];
        if !alternatives.is_empty() {
            extensions.push(format!("subjectAltName={}", alternatives.join(",")));
        }
        let organization = organization
            .map(|name| format!("/O={name}"))
            .unwrap_or_default();
        self.request(
            name,
            &format!("{organization}/CN={common}"),
            &extensions,
            Some(authority),
        )
    }

    /// One run of openssl makes the key and the certificate.
    fn request(
        &self,
        name: &str,
        subject: &str,
        extensions: &[String],
        authority: Option<&str>,
    ) -> Result<()> {
        let mut arguments: Vec<String> = [
            "req", "-x509", "-new", "-nodes", "-days", "3650", "-newkey", "ec",
        ]
        .map(String::from)
        .to_vec();
        let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        option("-config", self.text("openssl.conf"));
        option("-pkeyopt", "ec_paramgen_curve:prime256v1".to_owned());
        option("-keyout", self.text(&format!("{name}.key")));
        option("-out", self.text(&format!("{name}.crt")));
        option("-subj", subject.to_owned());
        for extension in extensions {
            option("-addext", extension.clone());
        }
        if let Some(authority) = authority {
            option("-CA", self.text(&format!("{authority}.crt")));
            option("-CAkey", self.text(&format!("{authority}.key")));
        }
        process::run("openssl", &arguments)
            .with_context(|| format!("make certificate {name}"))
            .map(|_| ())
    }

    fn kubeconfig(&self, layout: &Layout, region: &Path, name: &str) -> Result<()> {
        let file = |kind: &str| self.text(&format!("{name}.{kind}"));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": layout.name,
            "clusters": [{"name": layout.name, "cluster": {
                "server": layout.api(), "certificate-authority": self.text("ca.crt")}}],
            "users": [{"name": name, "user": {"client-certificate": file("crt"), "client-key": file("key")}}],
            "contexts": [{"name": layout.name, "context": {"cluster": layout.name, "user": name}}],
        });
        let path = region.join("conf").join(format!("{name}.kubeconfig"));
        crate::paths::write_if_changed(&path, &config.to_string()).map(|_| ())
    }
}
