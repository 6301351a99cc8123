//! The ring: who is in it, who is up, who owns which tokens, and how nodes come and go.
//!
//! Everything here is a state machine or a pure function: time and randomness come in with the call,
//! what is to be done comes out as a list of actions. Sockets, disks and timers are the edge's.
//!
//! - [`gossip`]: what nodes tell each other; [`status`]: their statuses; [`failure_detector`].
//! - [`membership`]: what gossip knows, as nodes with tokens.
//! - [`replication`]: an immutable snapshot of the ring, and which nodes hold a token's data.
//! - [`tokens`]: tokens for a new node.
//! - [`seeds`]: where the first peers come from, and the decision to found, join or rejoin.
//! - [`topology`]: the life of a node from its start to NORMAL.

pub mod failure_detector;
pub mod gossip;
pub mod membership;
pub mod replication;
pub mod seeds;
pub mod status;
pub mod tokens;
pub mod topology;

pub use gossip::{
    GossipAction, GossipSettings, Gossiper, LocalNode, Moment, SavedPeer, ShadowRound,
};
pub use membership::Member;
pub use replication::{
    Placement, ReplicaMap, ReplicationError, RingNode, RingSnapshot, Role, Strategy, TokenRange,
};
pub use seeds::{SeedAnswer, SeedName, StartDecision, StartFacts};
pub use status::Status;
pub use tokens::{Allocation, allocate};
pub use topology::{Fetch, FetchPlan, Life, LifeAction, LifeSettings, Replaced, next_generation};
