//! What the gossiper does with messages.

use super::{GossipAction, Gossiper, Mode, Moment, Peer};
use crate::status::Status;
use helenus_internode::gossip::{
    ApplicationState, EndpointState, EndpointStates, GossipDigest, GossipMessage, HeartBeatState,
    VersionedValue, encode_token_text,
};
use helenus_seams::Entropy;
use helenus_types::{Endpoint, HostId, Token};
use std::collections::BTreeMap;
use std::time::Duration;

/// How far in the future, against our clock, a peer's start may lie before we take it as nonsense.
const MAX_GENERATION_AHEAD_SECONDS: i64 = 86_400 * 365;
/// How long an unanswered echo keeps the next one back.
const ECHO_PATIENCE: Duration = Duration::from_secs(2);
/// The order in which a peer's changes are told: the status first, and tokens before what depends on them.
fn telling_order(state: ApplicationState) -> (u8, ApplicationState) {
    let rank = match state {
        ApplicationState::HostId => 0,
        ApplicationState::StatusWithPort | ApplicationState::Status => 1,
        ApplicationState::Tokens => 2,
        _ => 3,
    };
    (rank, state)
}

impl Gossiper {
    /// Takes a message from `from`, the broadcast address that the peer gave in its handshake.
    pub fn receive(
        &mut self,
        from: Endpoint,
        message: GossipMessage,
        now: Moment,
        _entropy: &dyn Entropy,
    ) -> Vec<GossipAction> {
        let mut actions = Vec::new();
        match message {
            GossipMessage::Syn {
                cluster,
                partitioner,
                digests,
            } => {
                if cluster != self.settings.cluster || partitioner != self.settings.partitioner {
                    actions.push(GossipAction::Foreign {
                        from,
                        cluster: format!("{cluster} ({partitioner})"),
                    });
                } else if let Some(answer) = self.answer_syn(&digests) {
                    actions.push(GossipAction::Send {
                        to: from,
                        message: answer,
                    });
                }
            }
            GossipMessage::Ack { digests, states } => {
                self.on_ack(from, &digests, states, now, &mut actions);
            }
            GossipMessage::Ack2 { states } if self.is_enabled() => {
                self.apply(states, now, &mut actions);
            }
            GossipMessage::Shutdown { state } if self.is_enabled() => {
                self.on_shutdown(from, state, &mut actions);
            }
            GossipMessage::EchoRequest if self.is_enabled() => actions.push(GossipAction::Send {
                to: from,
                message: GossipMessage::EchoResponse,
            }),
            GossipMessage::EchoResponse => self.on_echo(from, now, &mut actions),
            GossipMessage::Ack2 { .. }
            | GossipMessage::Shutdown { .. }
            | GossipMessage::EchoRequest => {}
        }
        actions
    }

    fn answer_syn(&self, digests: &[GossipDigest]) -> Option<GossipMessage> {
        match &self.mode {
            // both of us are asking: say so, that the other need not wait for a ring
            Mode::Shadow(_) if digests.is_empty() => Some(GossipMessage::Ack {
                digests: Vec::new(),
                states: EndpointStates::new(),
            }),
            Mode::Idle | Mode::Shadow(_) => None,
            Mode::Enabled if digests.is_empty() => Some(GossipMessage::Ack {
                digests: Vec::new(),
                states: self.shadow_states(),
            }),
            Mode::Enabled => Some(self.compare(digests)),
        }
    }

    /// All states, those of saved peers filled up with what we remember: a replacing node needs the
    /// dead node's tokens.
    fn shadow_states(&self) -> EndpointStates {
        let mut states = self.states();
        for (endpoint, peer) in &self.peers {
            let Some(saved) = peer.saved.as_ref().filter(|_| peer.state.states.is_empty()) else {
                continue;
            };
            let remembered = [
                (ApplicationState::HostId, saved.host_id.to_string()),
                (ApplicationState::Tokens, encode_token_text(&saved.tokens)),
                (ApplicationState::Dc, saved.dc.clone()),
                (ApplicationState::Rack, saved.rack.clone()),
            ];
            let values = remembered
                .into_iter()
                .map(|(state, value)| (state, VersionedValue::new(value, 0)));
            states.entry(*endpoint).or_default().states.extend(values);
        }
        states
    }

    fn compare(&self, digests: &[GossipDigest]) -> GossipMessage {
        let mut wanted = Vec::new();
        let mut news = EndpointStates::new();
        for digest in digests {
            let ask = |max_version| GossipDigest {
                max_version,
                ..*digest
            };
            let Some(ours) = self.state(&digest.endpoint) else {
                if !self.is_quarantined(&digest.endpoint, digest.generation) {
                    wanted.push(ask(0));
                }
                continue;
            };
            let (generation, version) = (ours.heartbeat.generation, ours.max_version());
            let about_us = digest.endpoint == self.settings.me;
            if (digest.generation, digest.max_version) == (generation, version) {
                continue;
            }
            if digest.generation > generation {
                wanted.push(ask(0));
            } else if digest.generation < generation || about_us {
                news.extend(self.newer_than(digest.endpoint, -1));
            } else if digest.max_version > version {
                wanted.push(ask(version));
            } else {
                news.extend(self.newer_than(digest.endpoint, digest.max_version));
            }
        }
        GossipMessage::Ack {
            digests: wanted,
            states: news,
        }
    }

    /// The part of a node's state that is newer than `version`; `None` when nothing is.
    fn newer_than(&self, endpoint: Endpoint, version: i32) -> Option<(Endpoint, EndpointState)> {
        let state = self.state(&endpoint)?;
        let states: BTreeMap<_, _> = state
            .states
            .iter()
            .filter(|(_, value)| value.version > version)
            .map(|(k, v)| (*k, v.clone()))
            .collect();
        let any = state.heartbeat.version > version || !states.is_empty();
        any.then_some((
            endpoint,
            EndpointState {
                heartbeat: state.heartbeat,
                states,
            },
        ))
    }

    fn on_ack(
        &mut self,
        from: Endpoint,
        digests: &[GossipDigest],
        states: EndpointStates,
        now: Moment,
        actions: &mut Vec<GossipAction>,
    ) {
        match &mut self.mode {
            Mode::Shadow(round) if digests.is_empty() => Self::shadow_answer(round, from, states),
            Mode::Idle | Mode::Shadow(_) => {}
            Mode::Enabled => {
                // an answer without anything asked may be a late one to our shadow round: nothing lost in applying it
                self.apply(states, now, actions);
                let mut news = EndpointStates::new();
                for digest in digests {
                    let version = if digest.endpoint == self.settings.me {
                        -1
                    } else {
                        digest.max_version
                    };
                    news.extend(self.newer_than(digest.endpoint, version));
                }
                actions.push(GossipAction::Send {
                    to: from,
                    message: GossipMessage::Ack2 { states: news },
                });
            }
        }
    }

    fn is_quarantined(&self, endpoint: &Endpoint, generation: i32) -> bool {
        self.quarantined
            .get(endpoint)
            .is_some_and(|quarantine| generation <= quarantine.generation)
    }

    fn apply(&mut self, states: EndpointStates, now: Moment, actions: &mut Vec<GossipAction>) {
        // joining nodes last, then by start: who replaces is seen after whom it replaces
        let mut ordered: Vec<(Endpoint, EndpointState)> = states.into_iter().collect();
        ordered.sort_by_key(|(endpoint, state)| {
            (
                Status::parse(state.status()).is_joining(),
                state.heartbeat.generation,
                *endpoint,
            )
        });
        let mut touched = false;
        for (endpoint, remote) in ordered {
            if endpoint == self.settings.me {
                self.learn_own_generation(remote.heartbeat.generation, now, actions);
                continue;
            }
            let generation = remote.heartbeat.generation;
            let absurd = i64::from(generation) > now.wall_seconds() + MAX_GENERATION_AHEAD_SECONDS;
            if absurd || self.is_quarantined(&endpoint, generation) {
                continue;
            }
            match self
                .peers
                .get(&endpoint)
                .map(|peer| peer.state.heartbeat.generation)
            {
                None => {
                    self.detector.report(endpoint, now.monotonic);
                    self.start_anew(endpoint, remote, now, actions);
                    touched = true;
                }
                Some(known) if generation > known => {
                    if !self.is_alive(&endpoint) {
                        self.detector.forget(&endpoint);
                    }
                    self.detector.report(endpoint, now.monotonic);
                    self.start_anew(endpoint, remote, now, actions);
                    touched = true;
                }
                Some(known) if generation == known => {
                    touched |= self.merge(endpoint, &remote, now, actions);
                }
                Some(_) => {}
            }
        }
        if touched {
            self.resolve_host_ids(now, actions);
            self.forget_replaced(now, actions);
        }
    }

    fn learn_own_generation(
        &mut self,
        remembered: i32,
        now: Moment,
        actions: &mut Vec<GossipAction>,
    ) {
        let believable = i64::from(remembered) <= now.wall_seconds() + MAX_GENERATION_AHEAD_SECONDS;
        if remembered > self.own.heartbeat.generation && believable {
            self.own.heartbeat.generation = remembered.saturating_add(1);
            actions.push(GossipAction::GenerationRaised(
                self.own.heartbeat.generation,
            ));
        }
    }

    /// A node that is new to us, or started again.
    fn start_anew(
        &mut self,
        endpoint: Endpoint,
        remote: EndpointState,
        now: Moment,
        actions: &mut Vec<GossipAction>,
    ) {
        let status = Status::parse(remote.status());
        let previous = self.peers.remove(&endpoint);
        self.quarantined.remove(&endpoint);
        let was_alive = previous.as_ref().is_some_and(|peer| peer.alive);
        let mut peer = Peer::new(remote, now);
        // what was saved counts until the node says who it is
        if peer.host_id().is_none() {
            peer.saved = previous.and_then(|peer| peer.saved);
        }
        if was_alive {
            actions.push(GossipAction::Down(endpoint));
        }
        self.peers.insert(endpoint, peer);
        actions.push(GossipAction::Joined(endpoint));
        if !status.is_dead() && status != Status::Shutdown {
            self.send_echo(endpoint, now, actions);
        }
    }

    /// News of a start that we know. True when a state changed that ownership depends on.
    fn merge(
        &mut self,
        endpoint: Endpoint,
        remote: &EndpointState,
        now: Moment,
        actions: &mut Vec<GossipAction>,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&endpoint) else {
            return false;
        };
        let known = peer.state.max_version();
        if remote.heartbeat.version > known {
            peer.updated = now.monotonic;
            self.detector.report(endpoint, now.monotonic);
        }
        let mut changed: Vec<ApplicationState> = Vec::new();
        if remote.max_version() > known {
            peer.state.heartbeat.version =
                peer.state.heartbeat.version.max(remote.heartbeat.version);
            for (state, value) in &remote.states {
                if peer
                    .state
                    .states
                    .get(state)
                    .is_none_or(|ours| ours.version < value.version)
                {
                    peer.state.states.insert(*state, value.clone());
                    changed.push(*state);
                }
            }
        }
        changed.sort_by_key(|state| telling_order(*state));
        for state in &changed {
            let value = peer.state.get(*state).unwrap_or_default().to_owned();
            actions.push(GossipAction::Changed {
                endpoint,
                state: *state,
                value,
            });
        }
        let status = peer.status();
        let gone = status.is_dead() || status == Status::Shutdown;
        if gone && std::mem::replace(&mut peer.alive, false) {
            actions.push(GossipAction::Down(endpoint));
        } else if !gone && !peer.alive {
            self.send_echo(endpoint, now, actions);
        }
        changed.iter().any(|state| telling_order(*state).0 < 3)
    }

    fn send_echo(&mut self, to: Endpoint, now: Moment, actions: &mut Vec<GossipAction>) {
        if let Some(peer) = self.peers.get_mut(&to)
            && peer
                .echo_sent
                .is_none_or(|sent| now.monotonic.saturating_sub(sent) >= ECHO_PATIENCE)
        {
            peer.echo_sent = Some(now.monotonic);
            actions.push(GossipAction::Send {
                to,
                message: GossipMessage::EchoRequest,
            });
        }
    }

    fn on_echo(&mut self, from: Endpoint, now: Moment, actions: &mut Vec<GossipAction>) {
        if let Some(peer) = self.peers.get_mut(&from)
            && peer.echo_sent.take().is_some()
        {
            let status = peer.status();
            peer.updated = now.monotonic;
            if !status.is_dead()
                && status != Status::Shutdown
                && !std::mem::replace(&mut peer.alive, true)
            {
                // what was silent may be silent for a moment more
                self.detector.report(from, now.monotonic);
                actions.push(GossipAction::Up(from));
            }
        }
    }

    fn on_shutdown(
        &mut self,
        from: Endpoint,
        state: Option<EndpointState>,
        actions: &mut Vec<GossipAction>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        match state {
            Some(last) if last.heartbeat.generation < peer.state.heartbeat.generation => return,
            Some(last) if Status::parse(last.status()) == Status::Shutdown => peer.state = last,
            _ => {
                let version = HeartBeatState::SHUTDOWN_VERSION;
                for (kind, text) in [
                    (ApplicationState::StatusWithPort, "shutdown,true"),
                    (ApplicationState::Status, "shutdown,true"),
                    (ApplicationState::RpcReady, "false"),
                ] {
                    peer.state
                        .states
                        .insert(kind, VersionedValue::new(text, version));
                }
            }
        }
        // nothing of this start is newer: others' older news cannot undo it
        peer.state.heartbeat.version = HeartBeatState::SHUTDOWN_VERSION;
        peer.echo_sent = None;
        let was_alive = std::mem::replace(&mut peer.alive, false);
        let value = peer.state.status().to_owned();
        if was_alive {
            actions.push(GossipAction::Down(from));
        }
        actions.push(GossipAction::Changed {
            endpoint: from,
            state: ApplicationState::StatusWithPort,
            value,
        });
    }

    /// Keeps G3: of the endpoints that claim one host id, the youngest start remains.
    fn resolve_host_ids(&mut self, now: Moment, actions: &mut Vec<GossipAction>) {
        let own_id = self
            .own
            .get(ApplicationState::HostId)
            .and_then(|text| text.parse().ok())
            .map(HostId);
        let mut owners: BTreeMap<HostId, (i32, Endpoint)> = BTreeMap::new();
        if let Some(id) = own_id {
            owners.insert(id, (self.own.heartbeat.generation, self.settings.me));
        }
        let mut losers = Vec::new();
        for (endpoint, peer) in &self.peers {
            let claimed = (peer.state.heartbeat.generation, *endpoint);
            let Some(id) = peer.host_id() else { continue };
            match owners.get(&id).copied() {
                None => {
                    owners.insert(id, claimed);
                }
                Some(other) if other < claimed => {
                    owners.insert(id, claimed);
                    losers.push(other.1);
                }
                Some(_) => losers.push(*endpoint),
            }
        }
        for loser in losers {
            if loser == self.settings.me {
                let by = own_id
                    .and_then(|id| owners.get(&id))
                    .map_or(loser, |owner| owner.1);
                actions.push(GossipAction::HostIdTaken { by });
            } else {
                self.remove(loser, now, actions);
            }
        }
    }

    /// Forgets members that are down and all of whose tokens younger members own: they were replaced.
    pub(super) fn forget_replaced(&mut self, now: Moment, actions: &mut Vec<GossipAction>) {
        let own = (self.settings.me, self.own_peer());
        let members = self
            .peers
            .iter()
            .map(|(endpoint, peer)| (*endpoint, peer))
            .chain([(own.0, &own.1)]);
        let mut owners: BTreeMap<Token, (i32, Endpoint)> = BTreeMap::new();
        for (endpoint, peer) in
            members.filter(|(_, peer)| matches!(peer.status(), Status::Normal { .. }))
        {
            for token in peer.tokens() {
                let claim = (peer.state.heartbeat.generation, endpoint);
                owners
                    .entry(token)
                    .and_modify(|owner| *owner = claim.max(*owner))
                    .or_insert(claim);
            }
        }
        let replaced = |endpoint: &Endpoint, peer: &Peer| {
            peer.tokens().iter().all(|token| {
                owners.get(token).is_some_and(|owner| {
                    owner.1 != *endpoint && owner.0 > peer.state.heartbeat.generation
                })
            })
        };
        let gone: Vec<Endpoint> = self
            .peers
            .iter()
            .filter(|(endpoint, peer)| !peer.alive && peer.is_member() && replaced(endpoint, peer))
            .map(|(endpoint, _)| *endpoint)
            .collect();
        for endpoint in gone {
            self.remove(endpoint, now, actions);
        }
    }
}
