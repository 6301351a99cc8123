//! Leader election against the API server: reads and writes the Lease as [`crate::core::lease`] decides.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, PostParams};

use super::Monotonic;
use crate::core::lease::{Act, Election, Record};

const NAME: &str = "helenus-operator";

/// Whether this replica may act.
#[derive(Clone, Debug)]
pub struct Leadership {
    election: Arc<Mutex<Election>>,
    clock: Monotonic,
}

impl Leadership {
    fn with<T>(&self, work: impl FnOnce(&mut Election, u64) -> T) -> T {
        let now = self.clock.now_ms();
        work(
            &mut self.election.lock().unwrap_or_else(PoisonError::into_inner),
            now,
        )
    }

    /// This replica may write as leader now.
    pub fn leads(&self) -> bool {
        self.with(|election, now| election.leads(now))
    }
}

/// One replica's part in the election.
#[derive(Debug)]
pub struct Elector {
    leases: Api<Lease>,
    identity: String,
    seconds: u16,
    leadership: Leadership,
}

impl Elector {
    /// A replica that does not lead yet.
    pub fn new(
        client: &Client,
        namespace: &str,
        identity: &str,
        seconds: u16,
        clock: Monotonic,
    ) -> Self {
        let election = Arc::new(Mutex::new(Election::new(
            identity,
            u64::from(seconds) * 1000,
        )));
        Self {
            leases: Api::namespaced(client.clone(), namespace),
            identity: identity.to_owned(),
            seconds,
            leadership: Leadership { election, clock },
        }
    }

    /// Whether this replica leads, for others to ask.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits until this replica leads.
    pub async fn win(&self) {
        let mut waited = false;
        while !self.leadership.leads() {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "cannot read or write the lease; trying again");
            } else if !self.leadership.leads() && !waited {
                waited = true;
                tracing::info!(identity = self.identity, "another replica leads; waiting");
            }
            if !self.leadership.leads() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        tracing::info!(identity = self.identity, "leading");
    }

    /// Renews until leadership is lost.
    pub async fn keep(&self) {
        let period = Duration::from_secs(u64::from(self.seconds)) / 5;
        while self.leadership.leads() {
            tokio::time::sleep(period).await;
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "cannot renew the lease; trying again");
            }
        }
        tracing::error!(identity = self.identity, "leadership lost");
    }

    /// Gives the Lease up, so that another replica need not wait for its end.
    pub async fn release(&self) -> kube::Result<()> {
        if !self.leadership.leads() {
            return Ok(());
        }
        self.leadership.with(|election, _| election.lost());
        let mut lease = self.leases.get(NAME).await?;
        if let Some(spec) = lease
            .spec
            .as_mut()
            .filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity))
        {
            spec.holder_identity = Some(String::new());
            self.leases
                .replace(NAME, &PostParams::default(), &lease)
                .await?;
        }
        Ok(())
    }

    async fn round(&self) -> kube::Result<()> {
        let began = self.leadership.clock.now_ms();
        let limit = Duration::from_secs(u64::from(self.seconds)) / 3;
        if let Ok(done) = tokio::time::timeout(limit, self.attempt(began)).await {
            return done;
        }
        tracing::warn!("the API server did not answer about the lease in time");
        Ok(())
    }

    async fn attempt(&self, began: u64) -> kube::Result<()> {
        let lease = self.leases.get_opt(NAME).await?;
        let record = lease.as_ref().map(record);
        let act = self
            .leadership
            .with(|election, now| election.decide(now, record.as_ref()));
        let taken = i32::from(act == Act::Take);
        let transitions = record.map_or(0, |record| record.transitions.saturating_add(taken));
        let written = match (act, lease) {
            (Act::Wait, _) => {
                self.leadership.with(|election, _| election.lost());
                return Ok(());
            }
            (Act::Create, _) | (_, None) => {
                self.leases
                    .create(&PostParams::default(), &self.lease(Lease::default(), 0))
                    .await
            }
            (Act::Take | Act::Renew, Some(lease)) => {
                self.leases
                    .replace(
                        NAME,
                        &PostParams::default(),
                        &self.lease(lease, transitions),
                    )
                    .await
            }
        };
        match written {
            Ok(_) => {
                self.leadership.with(|election, _| election.held(began));
                Ok(())
            }
            // Someone else was faster; the next round sees who.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The Lease as ours; its version stays, so that a write fails if someone else wrote meanwhile.
    fn lease(&self, mut lease: Lease, transitions: i32) -> Lease {
        let now = MicroTime(super::now());
        let before = lease.spec.take();
        let same = before
            .as_ref()
            .is_some_and(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let acquired = before.and_then(|spec| spec.acquire_time).filter(|_| same);
        lease.metadata.name = Some(NAME.to_owned());
        lease.spec = Some(LeaseSpec {
            acquire_time: acquired.or_else(|| Some(now.clone())),
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::from(self.seconds)),
            lease_transitions: Some(transitions),
            renew_time: Some(now),
            ..LeaseSpec::default()
        });
        lease
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        renewed: spec
            .renew_time
            .map(|time| time.0.to_string())
            .unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or(0),
    }
}
