//! The life of a node from its start to NORMAL, as a state machine around the gossiper.
//!
//! ```text
//! Asking ─ found ──────────────────────────────────────────────► Serving
//!        ─ rejoin ─────────────────────────────────────────────► Serving
//!        ─ join ───► Settling (BOOT, ring delay) ─► Streaming ─► Serving
//!        ─ replace ► Settling (BOOT_REPLACE) ─────► Streaming ─► Serving
//! ```
//!
//! Invariants:
//! L1: tokens are stored before they are announced, and the membership before it is served.
//! L2: NORMAL is announced only after all streams ended well, or when there is nothing to stream.
//! L3: of two nodes that join at once, the one with the lower endpoint goes on; the other waits.
//! L4: a node is replaced only while it is down.

mod plan;

pub use plan::{Fetch, FetchPlan, PlanError, fetches};

use crate::gossip::{GossipAction, Gossiper, Moment};
use crate::membership::{Member, members_of_shadow};
use crate::replication::{RingNode, RingSnapshot, Role, TokenRange};
use crate::seeds::{SeedAnswer, StartDecision, StartFacts, decide};
use crate::status::Status;
use crate::tokens::{Allocation, allocate};
use helenus_internode::gossip::{ApplicationState, EndpointStates, encode_token_text};
use helenus_schema::Replication;
use helenus_seams::Entropy;
use helenus_types::{Endpoint, HostId, Token};
use std::time::Duration;

/// The generation of a start: above that of every earlier start of this node and above whatever
/// peers remember of this endpoint, which may have been another node's.
pub fn next_generation(
    now: Moment,
    stored: i32,
    me: Endpoint,
    host_id: HostId,
    shadow: &EndpointStates,
) -> i32 {
    let clock = i32::try_from(now.wall_seconds()).unwrap_or(i32::MAX - 1);
    let remembered = members_of_shadow(shadow)
        .into_iter()
        .filter(|member| member.endpoint == me || member.host_id == Some(host_id))
        .map(|member| member.generation);
    remembered
        .chain([stored])
        .map(|generation| generation.saturating_add(1))
        .fold(clock, i32::max)
}

/// Whom a new node replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The node at this endpoint.
    At(Endpoint),
    /// The node of this id, wherever it was.
    Host(HostId),
}

/// What a starting node knows of itself.
#[derive(Debug, Clone)]
pub struct LifeSettings {
    /// Our endpoint.
    pub me: Endpoint,
    /// Our identity: stored, or new.
    pub host_id: HostId,
    /// Data center.
    pub dc: String,
    /// Rack.
    pub rack: String,
    /// `num_tokens`.
    pub tokens: usize,
    /// `allocate_tokens_for_local_replication_factor`.
    pub factor: usize,
    /// `initial_token`s; empty to have them allocated.
    pub initial_tokens: Vec<Token>,
    /// `auto_bootstrap`: whether to stream data before serving.
    pub stream: bool,
    /// Whom to replace.
    pub replaces: Option<Replaced>,
    /// How long changes of the ring are given to reach everybody.
    pub ring_delay: Duration,
    /// Tokens in the saved tables, empty for a new node.
    pub saved_tokens: Vec<Token>,
    /// Whether the saved tables say that this node was a member.
    pub was_member: bool,
    /// Peers in the saved tables.
    pub saved_peers: Vec<Endpoint>,
    /// Generation in the saved tables, 0 for a new node.
    pub saved_generation: i32,
}

/// What the edge shall do.
#[derive(Debug, Clone, PartialEq)]
pub enum LifeAction {
    /// Ask the seed provider (again), and give its answer to [`Life::seeds_answered`].
    AskSeeds,
    /// Nothing to do but wait; for the log and the node's status.
    Waiting(String),
    /// Store this generation (`system.local.gossip_generation`) before the next action.
    StoreGeneration(i32),
    /// Store these tokens before the next action.
    StoreTokens(Vec<Token>),
    /// Bring the schema over from these peers; [`Life::schema_agreed`] tells that it is there.
    FetchSchema(Vec<Endpoint>),
    /// Stream these ranges to this node, then call [`Life::streams_done`] or [`Life::streams_failed`].
    Stream(Vec<Fetch>),
    /// Log loudly: the only copy of these ranges was on the dead node that is replaced. Always comes
    /// before what follows from it.
    Lost {
        /// The keyspace.
        keyspace: String,
        /// The ranges.
        ranges: Vec<TokenRange>,
    },
    /// Store that this node is a member (`bootstrapped`).
    StoreMember,
    /// Open CQL: this node is NORMAL.
    Serve,
    /// Stop the process with this reason.
    Stop(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Asking { since: Duration },
    Settling { since: Duration, schema: bool },
    Streaming,
    Serving,
    Stopped,
}

/// A node's start. Drives the [`Gossiper`] given to each call.
#[derive(Debug, Clone)]
pub struct Life {
    settings: LifeSettings,
    phase: Phase,
    answer: Option<SeedAnswer>,
    last_asked: Option<Duration>,
    tokens: Vec<Token>,
    replaced: Option<Member>,
    waiting: String,
}

/// How often the seed provider is asked while it does not help.
const SEEDS_INTERVAL: Duration = Duration::from_secs(2);

impl Life {
    /// A node that has not begun.
    pub fn new(settings: LifeSettings) -> Self {
        let phase = Phase::Asking {
            since: Duration::ZERO,
        };
        Self {
            settings,
            phase,
            answer: None,
            last_asked: None,
            tokens: Vec::new(),
            replaced: None,
            waiting: String::new(),
        }
    }

    /// Begins: the gossiper starts its shadow round.
    pub fn start(&mut self, gossiper: &mut Gossiper, now: Moment) -> Vec<LifeAction> {
        gossiper.begin_shadow_round(self.settings.saved_peers.iter().copied(), now);
        self.phase = Phase::Asking {
            since: now.monotonic,
        };
        self.last_asked = Some(now.monotonic);
        vec![LifeAction::AskSeeds]
    }

    /// The seed provider answered; the gossiper asks its seeds from the next tick on.
    pub fn seeds_answered(&mut self, answer: SeedAnswer, gossiper: &mut Gossiper) {
        gossiper.set_seeds(answer.seeds().iter().copied());
        self.answer = Some(answer);
    }

    /// Whether this node is NORMAL.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// The tokens chosen, empty until then.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The schema of the ring has arrived and agrees with the peers'.
    pub fn schema_agreed(&mut self) {
        if let Phase::Settling { schema, .. } = &mut self.phase {
            *schema = true;
        }
    }

    /// To be called once per gossip round, after [`Gossiper::tick`]. `keyspaces` are those of the
    /// schema as it is now, with their replication; local ones do not matter.
    pub fn tick(
        &mut self,
        gossiper: &mut Gossiper,
        keyspaces: &[(String, Replication)],
        now: Moment,
        entropy: &dyn Entropy,
    ) -> Vec<LifeAction> {
        match self.phase {
            Phase::Asking { since } => self.ask(gossiper, since, now, entropy),
            Phase::Settling { since, schema } => {
                self.settle(gossiper, keyspaces, since, schema, now, entropy)
            }
            Phase::Streaming | Phase::Serving | Phase::Stopped => Vec::new(),
        }
    }

    fn wait(&mut self, reason: String) -> Vec<LifeAction> {
        if self.waiting == reason {
            return Vec::new();
        }
        self.waiting.clone_from(&reason);
        vec![LifeAction::Waiting(reason)]
    }

    fn stop(&mut self, reason: String) -> Vec<LifeAction> {
        self.phase = Phase::Stopped;
        vec![LifeAction::Stop(reason)]
    }

    fn ask(
        &mut self,
        gossiper: &mut Gossiper,
        since: Duration,
        now: Moment,
        entropy: &dyn Entropy,
    ) -> Vec<LifeAction> {
        let Some(shadow) = gossiper.shadow_round().cloned() else {
            return Vec::new();
        };
        let settings = &self.settings;
        let decision = decide(&StartFacts {
            me: settings.me,
            host_id: settings.host_id,
            was_member: settings.was_member,
            saved_peers: &settings.saved_peers,
            answer: self.answer.as_ref(),
            shadow: &shadow,
            asked_for: now.monotonic.saturating_sub(since),
            patience: settings.ring_delay,
        });
        let states = &shadow.states;
        match decision {
            StartDecision::Wait(reason) => {
                let mut actions = self.wait(reason);
                if self
                    .last_asked
                    .is_none_or(|asked| now.monotonic.saturating_sub(asked) >= SEEDS_INTERVAL)
                {
                    self.last_asked = Some(now.monotonic);
                    actions.push(LifeAction::AskSeeds);
                }
                actions
            }
            StartDecision::Refuse(reason) => self.stop(reason),
            StartDecision::Rejoin { .. } if self.settings.saved_tokens.is_empty() => self.stop(
                "this node was a member but its tokens are not in its saved tables".to_owned(),
            ),
            StartDecision::Rejoin { .. } => {
                self.tokens.clone_from(&self.settings.saved_tokens);
                self.enter_ring(gossiper, states, now)
            }
            StartDecision::Found if self.settings.replaces.is_some() => {
                self.stop("there is no ring in which a node could be replaced".to_owned())
            }
            StartDecision::Found => {
                self.tokens = self.choose_tokens(&[], entropy);
                self.enter_ring(gossiper, states, now)
            }
            StartDecision::Join { .. } => self.begin_join(gossiper, states, now, entropy),
        }
    }

    fn choose_tokens(&self, members: &[Member], entropy: &dyn Entropy) -> Vec<Token> {
        let settings = &self.settings;
        if !settings.initial_tokens.is_empty() {
            return settings.initial_tokens.clone();
        }
        let ring = RingSnapshot::of_members(settings.me, members);
        allocate(
            &ring,
            &Allocation {
                dc: &settings.dc,
                rack: &settings.rack,
                count: settings.tokens,
                factor: settings.factor,
            },
            entropy,
        )
    }

    /// Announces this node's generation, tokens and status, and starts or goes on gossiping.
    fn announce(&self, gossiper: &mut Gossiper, status: &Status) {
        gossiper.set_local(ApplicationState::Tokens, encode_token_text(&self.tokens));
        gossiper.set_status(status);
        gossiper.enable();
    }

    fn raise_generation(
        &self,
        gossiper: &mut Gossiper,
        states: &EndpointStates,
        now: Moment,
    ) -> LifeAction {
        let settings = &self.settings;
        let generation = next_generation(
            now,
            settings.saved_generation,
            settings.me,
            settings.host_id,
            states,
        )
        .max(gossiper.generation());
        gossiper.set_generation(generation);
        LifeAction::StoreGeneration(generation)
    }

    fn first_token(&self) -> Token {
        self.tokens.first().copied().unwrap_or(Token::MINIMUM)
    }

    /// Founding and rejoining: NORMAL at once.
    fn enter_ring(
        &mut self,
        gossiper: &mut Gossiper,
        states: &EndpointStates,
        now: Moment,
    ) -> Vec<LifeAction> {
        let store = self.raise_generation(gossiper, states, now);
        self.announce(
            gossiper,
            &Status::Normal {
                token: self.first_token(),
            },
        );
        self.phase = Phase::Serving;
        vec![
            store,
            LifeAction::StoreTokens(self.tokens.clone()),
            LifeAction::StoreMember,
            LifeAction::Serve,
        ]
    }

    fn begin_join(
        &mut self,
        gossiper: &mut Gossiper,
        states: &EndpointStates,
        now: Moment,
        entropy: &dyn Entropy,
    ) -> Vec<LifeAction> {
        let members: Vec<Member> = members_of_shadow(states)
            .into_iter()
            .filter(|member| member.host_id != Some(self.settings.host_id))
            .collect();
        if let Some(occupant) = members
            .iter()
            .find(|member| member.endpoint == self.settings.me && member.is_owner())
        {
            return self.wait(format!("the ring knows another member at our address {}: {:?}; it must return elsewhere or be removed", occupant.endpoint, occupant.host_id));
        }
        let moving = |member: &&Member| {
            member.status.is_joining() || matches!(member.status, Status::Leaving { .. })
        };
        let status = if let Some(target) = self.settings.replaces {
            match self.take_over(target, &members) {
                Ok(status) => status,
                Err(reason) => return self.stop(reason),
            }
        } else if let Some(other) = members.iter().find(moving) {
            return self.wait(format!(
                "{} is joining or leaving; one at a time",
                other.endpoint
            ));
        } else {
            self.tokens = self.choose_tokens(&members, entropy);
            Status::Bootstrapping {
                token: self.first_token(),
            }
        };
        let store = self.raise_generation(gossiper, states, now);
        self.announce(gossiper, &status);
        self.phase = Phase::Settling {
            since: now.monotonic,
            schema: false,
        };
        let peers = members
            .iter()
            .filter(|member| member.is_owner())
            .map(|member| member.endpoint)
            .collect();
        vec![
            store,
            LifeAction::StoreTokens(self.tokens.clone()),
            LifeAction::FetchSchema(peers),
        ]
    }

    fn take_over(&mut self, target: Replaced, members: &[Member]) -> Result<Status, String> {
        let found = members.iter().find(|member| match target {
            Replaced::At(endpoint) => member.endpoint == endpoint,
            Replaced::Host(host_id) => member.host_id == Some(host_id),
        });
        let Some(dead) = found.filter(|member| member.is_owner()) else {
            return Err(format!("the ring has no member {target:?} to replace"));
        };
        if dead.endpoint == self.settings.me {
            return Err(format!(
                "replacing a node at its own address ({}) is not supported: start the replacement at another",
                dead.endpoint
            ));
        }
        if (&*dead.dc, &*dead.rack) != (self.settings.dc.as_str(), self.settings.rack.as_str()) {
            return Err(format!(
                "the node to replace is in data center {} rack {}, this node in {} {}",
                dead.dc, dead.rack, self.settings.dc, self.settings.rack
            ));
        }
        self.tokens.clone_from(&dead.tokens);
        self.replaced = Some(dead.clone());
        Ok(Status::Replacing {
            replaced: dead.endpoint,
        })
    }

    fn settle(
        &mut self,
        gossiper: &mut Gossiper,
        keyspaces: &[(String, Replication)],
        since: Duration,
        schema: bool,
        now: Moment,
        entropy: &dyn Entropy,
    ) -> Vec<LifeAction> {
        let me = self.settings.me;
        let members = gossiper.members();
        if let Some(dead) = self
            .replaced
            .as_ref()
            .filter(|dead| gossiper.is_alive(&dead.endpoint))
        {
            return self.stop(format!(
                "{} is up: only a node that is down can be replaced",
                dead.endpoint
            ));
        }
        let ahead = members.iter().find(|member| {
            member.status.is_joining()
                && member.alive
                && member.endpoint < me
                && self.replaced.is_none()
        });
        if let Some(other) = ahead {
            self.phase = Phase::Settling {
                since: now.monotonic,
                schema,
            };
            return self.wait(format!("{} joins before this node", other.endpoint));
        }
        // who joined before us may have taken our tokens or made them a bad choice
        let others: Vec<Member> = members
            .iter()
            .filter(|member| member.endpoint != me)
            .cloned()
            .collect();
        if self.replaced.is_none() && self.is_token_taken(&others) {
            self.tokens = self.choose_tokens(&others, entropy);
            self.announce(
                gossiper,
                &Status::Bootstrapping {
                    token: self.first_token(),
                },
            );
            self.phase = Phase::Settling {
                since: now.monotonic,
                schema,
            };
            return vec![LifeAction::StoreTokens(self.tokens.clone())];
        }
        if now.monotonic.saturating_sub(since) < self.settings.ring_delay {
            return self.wait("waiting for the ring to learn of this node".to_owned());
        }
        if !schema {
            return self.wait("waiting for the ring's schema".to_owned());
        }
        if self.settings.stream {
            self.begin_streams(gossiper, keyspaces, &others)
        } else {
            self.finish(gossiper)
        }
    }

    /// Whether an owner among the others has one of this node's tokens.
    fn is_token_taken(&self, others: &[Member]) -> bool {
        self.tokens.iter().any(|token| {
            others
                .iter()
                .any(|other| other.is_owner() && other.tokens.contains(token))
        })
    }

    fn begin_streams(
        &mut self,
        gossiper: &mut Gossiper,
        keyspaces: &[(String, Replication)],
        others: &[Member],
    ) -> Vec<LifeAction> {
        let joining = self.as_ring_node(gossiper.generation());
        let before = RingSnapshot::new(
            self.settings.me,
            others.iter().filter_map(RingNode::of_member),
        );
        let plan = match fetches(&before, &joining, keyspaces, &|endpoint| {
            gossiper.is_alive(endpoint)
        }) {
            Ok(plan) => plan,
            Err(error) => return self.wait(format!("cannot stream: {error}")),
        };
        let mut actions: Vec<LifeAction> = plan
            .lost
            .into_iter()
            .map(|(keyspace, ranges)| LifeAction::Lost { keyspace, ranges })
            .collect();
        if plan.fetches.is_empty() {
            actions.extend(self.finish(gossiper));
        } else {
            self.phase = Phase::Streaming;
            actions.push(LifeAction::Stream(plan.fetches));
        }
        actions
    }

    fn as_ring_node(&self, generation: i32) -> RingNode {
        let settings = &self.settings;
        let role = self
            .replaced
            .as_ref()
            .map_or(Role::Joining, |dead| Role::Replacing(dead.endpoint));
        RingNode {
            endpoint: settings.me,
            host_id: Some(settings.host_id),
            dc: settings.dc.as_str().into(),
            rack: settings.rack.as_str().into(),
            tokens: self.tokens.clone(),
            role,
            generation,
        }
    }

    /// All streams ended well.
    pub fn streams_done(&mut self, gossiper: &mut Gossiper) -> Vec<LifeAction> {
        if self.phase == Phase::Streaming {
            self.finish(gossiper)
        } else {
            Vec::new()
        }
    }

    /// A stream failed: the plan is made anew, from what is alive then.
    pub fn streams_failed(&mut self, reason: &str, now: Moment) -> Vec<LifeAction> {
        if self.phase != Phase::Streaming {
            return Vec::new();
        }
        self.phase = Phase::Settling {
            since: now.monotonic,
            schema: true,
        };
        self.wait(format!(
            "streaming failed, trying again after the ring delay: {reason}"
        ))
    }

    fn finish(&mut self, gossiper: &mut Gossiper) -> Vec<LifeAction> {
        self.announce(
            gossiper,
            &Status::Normal {
                token: self.first_token(),
            },
        );
        self.phase = Phase::Serving;
        vec![LifeAction::StoreMember, LifeAction::Serve]
    }

    /// What the gossiper reports that concerns the node's life: a stop when another node has our id.
    pub fn gossip_reported(&mut self, action: &GossipAction) -> Vec<LifeAction> {
        match action {
            GossipAction::HostIdTaken { by } => self.stop(format!(
                "{by} has the same host id {} and started later: this node's data was copied",
                self.settings.host_id
            )),
            GossipAction::GenerationRaised(generation) => {
                vec![LifeAction::StoreGeneration(*generation)]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
