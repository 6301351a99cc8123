//! Hints on the control thread: kept while a peer is away, sent when it is back.

use super::{Control, ControlMessage};
use crate::replicas::hint_payload;
use futures::stream::{FuturesUnordered, StreamExt};
use helenus_coordinator::hints::Hint;
use helenus_internode::verb::Verb;
use helenus_types::{Endpoint, HostId};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Hints that may be under way to one peer.
const IN_FLIGHT: usize = 128;
/// A file of hints that cannot be read is tried again after this long.
const UNREADABLE_PAUSE: Duration = Duration::from_mins(1);

impl Control {
    pub(super) fn keep_hint(&mut self, host: HostId, hint: &Hint) {
        let now = self.now().monotonic;
        let window = self.shared.settings.max_hint_window;
        if self
            .down_since
            .get(&host)
            .is_some_and(|since| now.saturating_sub(*since) > window)
        {
            tracing::debug!(%host, "no hint is kept: the node has been down for longer than max_hint_window");
            return;
        }
        if let Err(error) = self.hints.keep(host, hint) {
            tracing::error!(%host, %error, "a hint could not be kept: run a repair when the node is back");
        }
    }

    /// Starts sending to every live peer for which hints are kept.
    pub(super) fn deliver_hints(&mut self) {
        let cluster = self.shared.cluster.load_full();
        let now = self.now().monotonic;
        let waiting: Vec<HostId> = self
            .hints
            .targets()
            .filter(|host| !self.delivering.contains(host))
            .filter(|host| {
                self.unreadable_hints
                    .get(host)
                    .is_none_or(|at| now.saturating_sub(*at) >= UNREADABLE_PAUSE)
            })
            .collect();
        for host in waiting {
            let member = cluster
                .members
                .iter()
                .find(|member| member.host_id == Some(host) && member.alive);
            if let Some(member) = member {
                self.deliver_next(host, member.endpoint);
            }
        }
    }

    fn deliver_next(&mut self, host: HostId, to: Endpoint) {
        let Some(path) = self.hints.next_file(host) else {
            return;
        };
        let schema = self.shared.schema.load_full();
        let hints = match self.hints.read(&path, &schema) {
            Ok(hints) => hints,
            Err(error) => {
                tracing::error!(%host, %error, "hints cannot be read, trying again in a minute: run a repair of this node if that goes on");
                let now = self.now().monotonic;
                self.unreadable_hints.insert(host, now);
                return;
            }
        };
        self.unreadable_hints.remove(&host);
        self.delivering.insert(host);
        tokio::task::spawn_local(deliver(
            Rc::clone(&self.messaging),
            self.shared.control.clone(),
            Delivery {
                host,
                to,
                path,
                hints,
                timeout: self.shared.settings.write_request_timeout,
            },
        ));
    }

    pub(super) fn hints_delivered(&mut self, host: HostId, path: &Path, taken: bool) {
        self.delivering.remove(&host);
        if !taken {
            return;
        }
        if let Err(error) = self.hints.delivered(host, path) {
            tracing::error!(%host, %error, "delivered hints cannot be deleted: they will be sent again");
            return;
        }
        self.deliver_hints();
    }
}

struct Delivery {
    host: HostId,
    to: Endpoint,
    path: PathBuf,
    hints: Vec<Hint>,
    timeout: Duration,
}

async fn deliver(
    messaging: Rc<crate::messaging::Messaging>,
    control: tokio::sync::mpsc::Sender<ControlMessage>,
    delivery: Delivery,
) {
    let Delivery {
        host,
        to,
        path,
        hints,
        timeout,
    } = delivery;
    let count = hints.len();
    let now_ms = messaging.now_ms();
    let mut hints = hints.into_iter().filter(|hint| !hint.is_expired(now_ms));
    let mut under_way = FuturesUnordered::new();
    let mut taken = true;
    loop {
        while taken && under_way.len() < IN_FLIGHT {
            let Some(hint) = hints.next() else { break };
            under_way.push(messaging.request(
                to,
                Verb::HintReq,
                timeout,
                hint_payload(host.0, hint),
            ));
        }
        match under_way.next().await {
            Some(Ok(answer)) if answer.message.header.verb == Verb::HintRsp => {}
            Some(_) => taken = false,
            None => break,
        }
    }
    if taken {
        tracing::info!(%host, peer = %to, count, "delivered hints");
    } else {
        tracing::info!(%host, peer = %to, "the peer did not take all hints: they will be sent again");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    // the control thread may have ended
    drop(
        control
            .send(ControlMessage::HintsDelivered(host, path, taken))
            .await,
    );
}
