//! The gossiper: what this node tells its peers of itself, and what it learns of them.
//!
//! Once a second ([`Gossiper::tick`]) it sends digests of all it knows to one live peer, sometimes to
//! an unreachable one and to a seed; three messages later both know the newer of what either knew.
//! Follows Cassandra 5.0 `gms/Gossiper.java`, with these differences, all stricter or healing:
//! - a new endpoint with an absurd generation is refused, not only a known one;
//! - quarantine stops what a removed node was, not a newer start at the same address, so that nodes
//!   may swap addresses;
//! - two endpoints that claim one host id are resolved here (the younger start keeps it);
//! - when peers remember a later start of ours than ours is (the clock went back), our generation
//!   follows theirs.
//!
//! Invariants:
//! G1: of a peer, (generation, version) only grows, but for removal.
//! G2: a peer is reported up only after it answered an echo in its current generation.
//! G3: a host id belongs to at most one endpoint, after every call.
//! G4: nothing received changes our own states, but the generation.

mod apply;
mod settings;
mod shadow;

pub use settings::{GossipSettings, LocalNode, Moment};
pub use shadow::ShadowRound;

use crate::failure_detector::FailureDetector;
use crate::status::Status;
use helenus_internode::gossip::{
    ApplicationState, EndpointState, EndpointStates, GossipDigest, GossipMessage, HeartBeatState,
    VersionedValue,
};
use helenus_seams::Entropy;
use helenus_types::{Endpoint, HostId, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the edge shall do, or tell others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GossipAction {
    /// Send a message, on the urgent connection. An [`GossipMessage::EchoResponse`] answers the
    /// message just received: it must carry that message's id.
    Send {
        /// To whom.
        to: Endpoint,
        /// What.
        message: GossipMessage,
    },
    /// A peer is reachable.
    Up(Endpoint),
    /// A peer is not reachable any more.
    Down(Endpoint),
    /// A peer is new, or started anew: all its states may have changed.
    Joined(Endpoint),
    /// A peer changed one of its states.
    Changed {
        /// Which peer.
        endpoint: Endpoint,
        /// Which state.
        state: ApplicationState,
        /// The new text.
        value: String,
    },
    /// A peer was forgotten: close its connections.
    Removed(Endpoint),
    /// A message was ignored because its sender belongs to another cluster or partitioner.
    Foreign {
        /// The sender.
        from: Endpoint,
        /// Its cluster's name and partitioner.
        cluster: String,
    },
    /// Our generation was raised; store it before the next start.
    GenerationRaised(i32),
    /// Another, younger node claims our host id (a cloned volume): this node must stop.
    HostIdTaken {
        /// The other node.
        by: Endpoint,
    },
}

/// What a node's saved tables knew of a peer before its first gossip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPeer {
    /// Where it was.
    pub endpoint: Endpoint,
    /// Its identity.
    pub host_id: HostId,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Its data center.
    pub dc: String,
    /// Its rack.
    pub rack: String,
}

/// A peer as gossip knows it.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) state: EndpointState,
    pub(crate) alive: bool,
    /// Monotonic time of the last news.
    pub(crate) updated: Duration,
    /// When an echo was sent that is not answered yet.
    pub(crate) echo_sent: Option<Duration>,
    pub(crate) saved: Option<SavedPeer>,
}

impl Peer {
    fn new(state: EndpointState, now: Moment) -> Self {
        Self {
            state,
            alive: false,
            updated: now.monotonic,
            echo_sent: None,
            saved: None,
        }
    }

    pub(crate) fn status(&self) -> Status {
        Status::parse(self.state.status())
    }

    pub(crate) fn host_id(&self) -> Option<HostId> {
        let gossiped = self
            .state
            .get(ApplicationState::HostId)
            .and_then(|text| text.parse().ok())
            .map(HostId);
        gossiped.or(self.saved.as_ref().map(|saved| saved.host_id))
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        let gossiped = self.state.tokens().unwrap_or_default();
        if gossiped.is_empty() {
            self.saved
                .as_ref()
                .map(|saved| saved.tokens.clone())
                .unwrap_or_default()
        } else {
            gossiped
        }
    }

    /// Whether it owns tokens, as far as we know.
    pub(crate) fn is_member(&self) -> bool {
        let owns = match self.status() {
            Status::None => self.saved.is_some(),
            status => status.owns_tokens(),
        };
        owns && !self.tokens().is_empty()
    }
}

/// What was removed, and until when it is not to be learnt again.
#[derive(Debug, Clone, Copy)]
struct Quarantine {
    generation: i32,
    until: Duration,
}

#[derive(Debug, Clone)]
enum Mode {
    /// Answers nothing.
    Idle,
    /// Asking what the ring looks like, not part of it yet.
    Shadow(ShadowRound),
    /// Gossiping.
    Enabled,
}

/// The state machine. Time and randomness come with each call; what is to be done is returned.
#[derive(Debug, Clone)]
pub struct Gossiper {
    settings: GossipSettings,
    mode: Mode,
    own: EndpointState,
    next_version: i32,
    peers: BTreeMap<Endpoint, Peer>,
    quarantined: BTreeMap<Endpoint, Quarantine>,
    seeds: BTreeSet<Endpoint>,
    detector: FailureDetector,
}

impl Gossiper {
    /// A gossiper that says nothing until [`Gossiper::begin_shadow_round`] or [`Gossiper::enable`].
    /// `generation` must be larger than at any earlier start of this node: see
    /// [`crate::topology::next_generation`].
    pub fn new(settings: GossipSettings, generation: i32) -> Self {
        let own = EndpointState {
            heartbeat: HeartBeatState {
                generation,
                version: 0,
            },
            states: BTreeMap::new(),
        };
        let seeds = settings
            .seeds
            .iter()
            .copied()
            .filter(|seed| *seed != settings.me)
            .collect();
        let detector = FailureDetector::new(settings.phi_threshold);
        Self {
            settings,
            mode: Mode::Idle,
            own,
            next_version: 1,
            peers: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            seeds,
            detector,
        }
    }

    /// Our endpoint.
    pub fn me(&self) -> Endpoint {
        self.settings.me
    }

    /// Our generation.
    pub fn generation(&self) -> i32 {
        self.own.heartbeat.generation
    }

    /// Raises our generation before gossip begins; never lowers it.
    pub fn set_generation(&mut self, generation: i32) {
        self.own.heartbeat.generation = self.own.heartbeat.generation.max(generation);
    }

    /// Replaces the seeds: a seed provider's newer answer.
    pub fn set_seeds(&mut self, seeds: impl IntoIterator<Item = Endpoint>) {
        let me = self.settings.me;
        self.seeds = seeds.into_iter().filter(|seed| *seed != me).collect();
    }

    /// The seeds in use, without us.
    pub fn seeds(&self) -> impl Iterator<Item = Endpoint> {
        self.seeds.iter().copied()
    }

    /// Starts gossiping.
    pub fn enable(&mut self) {
        self.mode = Mode::Enabled;
    }

    /// Whether we take part in gossip.
    pub fn is_enabled(&self) -> bool {
        matches!(self.mode, Mode::Enabled)
    }

    /// Sets one of our states; peers learn it in the next rounds.
    pub fn set_local(&mut self, state: ApplicationState, value: impl Into<String>) {
        let version = self.take_version();
        self.own
            .states
            .insert(state, VersionedValue::new(value, version));
    }

    /// Sets our status, in both forms. Set TOKENS first: peers read them when the status changes.
    pub fn set_status(&mut self, status: &Status) {
        self.set_local(ApplicationState::StatusWithPort, status.text(true));
        self.set_local(ApplicationState::Status, status.text(false));
    }

    /// Sets all states that describe this node, but its status and tokens.
    pub fn set_local_node(&mut self, node: &LocalNode) {
        for (state, value) in node.states() {
            self.set_local(state, value);
        }
    }

    fn take_version(&mut self) -> i32 {
        let version = self.next_version;
        self.next_version = self.next_version.saturating_add(1);
        version
    }

    /// Remembers a peer from the saved tables, as down until it is heard of.
    pub fn add_saved(&mut self, saved: SavedPeer, now: Moment) {
        let endpoint = saved.endpoint;
        if endpoint == self.settings.me {
            return;
        }
        let empty = EndpointState {
            heartbeat: HeartBeatState {
                generation: 0,
                version: -1,
            },
            states: BTreeMap::new(),
        };
        self.peers
            .entry(endpoint)
            .or_insert_with(|| Peer::new(empty, now))
            .saved = Some(saved);
    }

    /// All states, ours included.
    pub fn states(&self) -> EndpointStates {
        let mut states: EndpointStates = self
            .peers
            .iter()
            .map(|(endpoint, peer)| (*endpoint, peer.state.clone()))
            .collect();
        states.insert(self.settings.me, self.own.clone());
        states
    }

    /// The state of one node.
    pub fn state(&self, endpoint: &Endpoint) -> Option<&EndpointState> {
        if *endpoint == self.settings.me {
            Some(&self.own)
        } else {
            self.peers.get(endpoint).map(|peer| &peer.state)
        }
    }

    /// Whether a node can be sent requests. We ourselves always can.
    pub fn is_alive(&self, endpoint: &Endpoint) -> bool {
        *endpoint == self.settings.me || self.peers.get(endpoint).is_some_and(|peer| peer.alive)
    }

    /// Peers that are up.
    pub fn live(&self) -> impl Iterator<Item = Endpoint> {
        self.peers
            .iter()
            .filter(|(_, peer)| peer.alive)
            .map(|(endpoint, _)| *endpoint)
    }

    /// Peers that are down though they should not be.
    pub fn unreachable(&self) -> impl Iterator<Item = Endpoint> {
        self.peers
            .iter()
            .filter(|(_, peer)| !peer.alive && !peer.status().is_dead())
            .map(|(endpoint, _)| *endpoint)
    }

    pub(crate) fn peers(&self) -> &BTreeMap<Endpoint, Peer> {
        &self.peers
    }

    pub(crate) fn own_peer(&self) -> Peer {
        Peer {
            state: self.own.clone(),
            alive: true,
            updated: Duration::ZERO,
            echo_sent: None,
            saved: None,
        }
    }

    /// One round; to be called every [`GossipSettings::interval`].
    pub fn tick(&mut self, now: Moment, entropy: &dyn Entropy) -> Vec<GossipAction> {
        match &mut self.mode {
            Mode::Idle => Vec::new(),
            Mode::Shadow(_) => self.ask_for_shadow(now),
            Mode::Enabled => {
                self.own.heartbeat.version = self.take_version();
                let mut actions = self.gossip_round(entropy);
                self.check_peers(now, &mut actions);
                actions
            }
        }
    }

    fn gossip_round(&mut self, entropy: &dyn Entropy) -> Vec<GossipAction> {
        let mut targets = Vec::new();
        let live: Vec<Endpoint> = self.live().collect();
        let unreachable: Vec<Endpoint> = self.unreachable().collect();
        let seeds: Vec<Endpoint> = self.seeds.iter().copied().collect();
        targets.extend(pick(&live, entropy));
        let to_seed = targets
            .first()
            .is_some_and(|target| self.seeds.contains(target));
        if chance(entropy, unreachable.len(), live.len() + 1) {
            targets.extend(pick(&unreachable, entropy));
        }
        if !to_seed || live.len() < seeds.len() {
            // with nobody alive always, else as often as there are seeds among the known
            if live.is_empty() || chance(entropy, seeds.len(), live.len() + unreachable.len()) {
                targets.extend(pick(&seeds, entropy));
            }
        }
        targets.dedup();
        let digests = self.digests();
        let message = GossipMessage::Syn {
            cluster: self.settings.cluster.clone(),
            partitioner: self.settings.partitioner.clone(),
            digests,
        };
        targets
            .into_iter()
            .map(|to| GossipAction::Send {
                to,
                message: message.clone(),
            })
            .collect()
    }

    fn digests(&self) -> Vec<GossipDigest> {
        let of = |endpoint: Endpoint, state: &EndpointState| GossipDigest {
            endpoint,
            generation: state.heartbeat.generation,
            max_version: state.max_version(),
        };
        let peers = self
            .peers
            .iter()
            .map(|(endpoint, peer)| of(*endpoint, &peer.state));
        std::iter::once(of(self.settings.me, &self.own))
            .chain(peers)
            .collect()
    }

    fn check_peers(&mut self, now: Moment, actions: &mut Vec<GossipAction>) {
        let may_convict = self.detector.begin_round(now.monotonic);
        let mut forgotten = Vec::new();
        for (endpoint, peer) in &mut self.peers {
            if may_convict && peer.alive && self.detector.convicts(endpoint, now.monotonic) {
                peer.alive = false;
                peer.echo_sent = None;
                actions.push(GossipAction::Down(*endpoint));
            }
            let status = peer.status();
            let silence = now.monotonic.saturating_sub(peer.updated);
            let patience = if status.is_joining() {
                self.settings.failed_bootstrap_timeout()
            } else {
                self.settings.fat_client_timeout()
            };
            let stray = !peer.is_member() && !status.is_dead() && silence > patience;
            let expired = !peer.alive
                && !peer.is_member()
                && status.expires_at_ms().is_some_and(|at| now.wall_ms > at);
            if stray || expired {
                forgotten.push(*endpoint);
            }
        }
        for endpoint in forgotten {
            self.remove(endpoint, now, actions);
        }
        // also when nothing was received: we may be the replacement ourselves
        self.forget_replaced(now, actions);
        self.quarantined
            .retain(|_, quarantine| quarantine.until > now.monotonic);
    }

    /// Forgets a peer, and for a while does not learn of this start of it again.
    pub fn remove(&mut self, endpoint: Endpoint, now: Moment, actions: &mut Vec<GossipAction>) {
        if let Some(peer) = self.peers.remove(&endpoint) {
            if peer.alive {
                actions.push(GossipAction::Down(endpoint));
            }
            self.detector.forget(&endpoint);
            let quarantine = Quarantine {
                generation: peer.state.heartbeat.generation,
                until: now.monotonic + self.settings.quarantine(),
            };
            self.quarantined.insert(endpoint, quarantine);
            actions.push(GossipAction::Removed(endpoint));
        }
    }

    /// Says goodbye: peers take us as down at once. Gossip ends; a later [`Gossiper::enable`] needs a
    /// new generation.
    pub fn shut_down(&mut self) -> Vec<GossipAction> {
        let status = Status::parse(self.own.status());
        let was_member = self.is_enabled()
            && !status.is_dead()
            && !status.is_joining()
            && status != Status::None;
        self.mode = if was_member {
            Mode::Enabled
        } else {
            Mode::Idle
        };
        if !was_member {
            return Vec::new();
        }
        self.set_local(ApplicationState::RpcReady, "false");
        self.set_status(&Status::Shutdown);
        self.mode = Mode::Idle;
        let state = self.own.clone();
        self.live()
            .map(|to| GossipAction::Send {
                to,
                message: GossipMessage::Shutdown {
                    state: Some(state.clone()),
                },
            })
            .collect()
    }
}

fn pick(among: &[Endpoint], entropy: &dyn Entropy) -> Option<Endpoint> {
    among.get(entropy.below(among.len())).copied()
}

/// True with probability `part / whole`, 1 when `whole` is 0 or smaller than `part`, 0 when `part` is.
fn chance(entropy: &dyn Entropy, part: usize, whole: usize) -> bool {
    part > 0 && (part >= whole || entropy.below(whole) < part)
}

#[cfg(test)]
mod tests;
