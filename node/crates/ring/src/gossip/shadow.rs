//! The shadow round: asking what the ring looks like before being part of it.

use super::{GossipAction, Gossiper, Mode, Moment};
use helenus_internode::gossip::{EndpointStates, GossipMessage};
use helenus_types::Endpoint;
use std::collections::BTreeSet;
use std::time::Duration;

/// What a shadow round found so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShadowRound {
    /// Whom to ask besides the seeds: peers of before the restart.
    pub(crate) peers: BTreeSet<Endpoint>,
    /// When it began.
    pub started: Duration,
    /// All states told by those who answered; the newest of each node.
    pub states: EndpointStates,
    /// Who answered with states: members of a ring.
    pub answered: BTreeSet<Endpoint>,
    /// Who answered that it is itself in its shadow round.
    pub in_shadow: BTreeSet<Endpoint>,
}

impl Gossiper {
    /// Begins (or begins anew) to ask the seeds, and from the second round on these peers too.
    pub fn begin_shadow_round(&mut self, peers: impl IntoIterator<Item = Endpoint>, now: Moment) {
        let me = self.settings.me;
        let peers = peers.into_iter().filter(|peer| *peer != me).collect();
        self.mode = Mode::Shadow(ShadowRound {
            peers,
            started: now.monotonic,
            ..ShadowRound::default()
        });
    }

    /// What the shadow round found so far; `None` when there is none.
    pub fn shadow_round(&self) -> Option<&ShadowRound> {
        match &self.mode {
            Mode::Shadow(round) => Some(round),
            Mode::Idle | Mode::Enabled => None,
        }
    }

    pub(super) fn ask_for_shadow(&self, now: Moment) -> Vec<GossipAction> {
        let Mode::Shadow(round) = &self.mode else {
            return Vec::new();
        };
        let message = GossipMessage::Syn {
            cluster: self.settings.cluster.clone(),
            partitioner: self.settings.partitioner.clone(),
            digests: Vec::new(),
        };
        let peers_too = now.monotonic.saturating_sub(round.started) >= self.settings.interval;
        let peers = round.peers.iter().filter(|_| peers_too);
        let targets: BTreeSet<Endpoint> = self.seeds.iter().chain(peers).copied().collect();
        targets
            .into_iter()
            .map(|to| GossipAction::Send {
                to,
                message: message.clone(),
            })
            .collect()
    }

    /// The answer of `from` to our empty digests.
    pub(super) fn shadow_answer(round: &mut ShadowRound, from: Endpoint, states: EndpointStates) {
        if states.is_empty() {
            round.in_shadow.insert(from);
            return;
        }
        round.in_shadow.remove(&from);
        round.answered.insert(from);
        for (endpoint, state) in states {
            let age = |s: &helenus_internode::gossip::EndpointState| {
                (s.heartbeat.generation, s.max_version())
            };
            match round.states.get(&endpoint) {
                Some(known) if age(known) >= age(&state) => {}
                _ => {
                    round.states.insert(endpoint, state);
                }
            }
        }
    }
}
