//! Asking the seed provider.

use super::{Control, ControlMessage};
use crate::settings::SeedSource;
use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use helenus_ring::seeds::{SeedAnswer, SeedName, parse_service};
use helenus_types::Endpoint;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl Control {
    /// Asks; the answer comes as a message. No answer means that the node waits.
    pub(super) fn ask_seeds(&mut self) {
        let port = self.shared.settings.storage_port;
        let control = self.shared.control.clone();
        match &self.shared.settings.seeds {
            SeedSource::Static(seeds) => {
                let seeds = seeds.iter().map(|seed| Endpoint(*seed)).collect();
                self.life
                    .seeds_answered(SeedAnswer::Static(seeds), &mut self.gossiper);
            }
            SeedSource::Http(url) => {
                let url = url.clone();
                tokio::task::spawn_local(async move {
                    match ask(&url, port).await {
                        // the control thread may have ended
                        Ok(answer) => {
                            drop(control.send(ControlMessage::SeedsAnswered(answer)).await);
                        }
                        Err(error) => {
                            tracing::info!(%url, error = format!("{error:#}"), "the seed service gave no answer: waiting");
                        }
                    }
                });
            }
        }
    }
}

async fn ask(url: &str, port: u16) -> Result<SeedAnswer> {
    let body = tokio::time::timeout(ANSWER_TIMEOUT, get(url))
        .await
        .map_err(|_| anyhow!("no answer within 10 s"))??;
    let answer = parse_service(&body, port)?;
    let mut seeds = Vec::new();
    for name in answer.seeds {
        match name {
            SeedName::Address(endpoint) => seeds.push(endpoint),
            SeedName::Name { host, port } => {
                let found = tokio::net::lookup_host((host.as_str(), port))
                    .await
                    .with_context(|| format!("look up {host}"))?;
                seeds.extend(found.map(Endpoint));
            }
        }
    }
    Ok(SeedAnswer::Service {
        is_seed: answer.is_seed,
        seeds,
    })
}

async fn get(url: &str) -> Result<Bytes> {
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| anyhow!("the seed service's URL must begin with http://"))?;
    let (authority, path) = rest
        .split_once('/')
        .map_or((rest, String::from("/")), |(authority, path)| {
            (authority, format!("/{path}"))
        });
    let address = if authority.contains(':') {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&address))
        .await
        .map_err(|_| anyhow!("no connection to {address} within 1 s"))?
        .with_context(|| format!("connect to {address}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the seed service ended");
        }
    });
    let request = hyper::Request::get(path)
        .header("host", authority)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        bail!("{status}: {}", String::from_utf8_lossy(&body));
    }
    Ok(body)
}
