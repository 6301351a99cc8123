//! Verbs: what a message asks for or answers. Source: Cassandra 5.0 `net/Verb.java`.

use crate::error::DecodeError;
use crate::handshake::ConnectionType;
use crate::stream::LARGE_MESSAGE_THRESHOLD;
use std::time::Duration;

/// Which of the settings of `cassandra.yaml` bounds a verb's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeoutKind {
    /// `request_timeout`
    Rpc,
    /// `write_request_timeout`
    Write,
    /// `read_request_timeout`
    Read,
    /// `range_request_timeout`
    Range,
    /// `counter_write_request_timeout`
    Counter,
    /// `truncate_request_timeout`
    Truncate,
    /// `repair_request_timeout`
    Repair,
    /// `block_for_peers_timeout_in_secs`
    Ping,
    /// The larger of `request_timeout` and five minutes: gossip.
    Long,
}

/// The timeouts in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// `request_timeout`
    pub rpc: Duration,
    /// `write_request_timeout`
    pub write: Duration,
    /// `read_request_timeout`
    pub read: Duration,
    /// `range_request_timeout`
    pub range: Duration,
    /// `counter_write_request_timeout`
    pub counter: Duration,
    /// `truncate_request_timeout`
    pub truncate: Duration,
    /// `repair_request_timeout`
    pub repair: Duration,
    /// `block_for_peers_timeout_in_secs`
    pub ping: Duration,
}

impl Default for Timeouts {
    /// The defaults of Cassandra 5.0.
    fn default() -> Self {
        Self {
            rpc: Duration::from_secs(10),
            write: Duration::from_secs(2),
            read: Duration::from_secs(5),
            range: Duration::from_secs(10),
            counter: Duration::from_secs(5),
            truncate: Duration::from_mins(1),
            repair: Duration::from_mins(2),
            ping: Duration::from_secs(10),
        }
    }
}

impl Timeouts {
    /// How long a message of this kind lives.
    pub fn of(&self, kind: TimeoutKind) -> Duration {
        match kind {
            TimeoutKind::Rpc => self.rpc,
            TimeoutKind::Write => self.write,
            TimeoutKind::Read => self.read,
            TimeoutKind::Range => self.range,
            TimeoutKind::Counter => self.counter,
            TimeoutKind::Truncate => self.truncate,
            TimeoutKind::Repair => self.repair,
            TimeoutKind::Ping => self.ping,
            TimeoutKind::Long => self.rpc.max(Duration::from_mins(5)),
        }
    }
}

/// What a verb is to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Request(Verb),
    Response,
    OneWay,
}

macro_rules! role {
    (response) => {
        Role::Response
    };
    (oneway) => {
        Role::OneWay
    };
    (request($response:ident)) => {
        Role::Request(Verb::$response)
    };
}

macro_rules! urgency {
    (urgent) => {
        true
    };
    (sized) => {
        false
    };
}

macro_rules! verbs {
    ($($name:ident = $id:literal, $text:literal, $urgency:ident, $timeout:ident, $role:ident $(($response:ident))?;)*) => {
        /// A verb of messaging versions 12 and 13, by Cassandra's names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are the documentation: Cassandra's own")]
        pub enum Verb { $($name,)* }

        impl Verb {
            /// Every verb, by ascending number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The number on the wire.
            pub fn id(self) -> u32 {
                match self { $(Self::$name => $id,)* }
            }

            /// The verb of this number.
            pub fn from_id(id: u64) -> Option<Self> {
                match id { $($id => Some(Self::$name),)* _ => None }
            }

            /// Cassandra's name, as logs and metrics show it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether it travels on the urgent connection whatever its size allows.
            pub fn is_urgent(self) -> bool {
                match self { $(Self::$name => urgency!($urgency),)* }
            }

            /// Which timeout bounds its life.
            pub fn timeout_kind(self) -> TimeoutKind {
                match self { $(Self::$name => TimeoutKind::$timeout,)* }
            }

            fn role(self) -> Role {
                match self { $(Self::$name => role!($role $(($response))?),)* }
            }
        }
    };
}

verbs! {
    MutationReq = 0, "MUTATION_REQ", sized, Write, request(MutationRsp);
    HintReq = 1, "HINT_REQ", sized, Write, request(HintRsp);
    ReadRepairReq = 2, "READ_REPAIR_REQ", sized, Write, request(ReadRepairRsp);
    ReadReq = 3, "READ_REQ", sized, Read, request(ReadRsp);
    BatchStoreReq = 5, "BATCH_STORE_REQ", sized, Write, request(BatchStoreRsp);
    BatchRemoveReq = 6, "BATCH_REMOVE_REQ", sized, Write, request(BatchRemoveRsp);
    RangeReq = 9, "RANGE_REQ", sized, Range, request(RangeRsp);
    GossipDigestSyn = 14, "GOSSIP_DIGEST_SYN", urgent, Long, oneway;
    GossipDigestAck = 15, "GOSSIP_DIGEST_ACK", urgent, Long, oneway;
    GossipDigestAck2 = 16, "GOSSIP_DIGEST_ACK2", urgent, Long, oneway;
    SchemaPushReq = 18, "SCHEMA_PUSH_REQ", sized, Rpc, request(SchemaPushRsp);
    TruncateReq = 19, "TRUNCATE_REQ", urgent, Truncate, request(TruncateRsp);
    SchemaVersionReq = 20, "SCHEMA_VERSION_REQ", sized, Rpc, request(SchemaVersionRsp);
    ReplicationDoneReq = 22, "REPLICATION_DONE_REQ", urgent, Rpc, request(ReplicationDoneRsp);
    CounterMutationReq = 24, "COUNTER_MUTATION_REQ", sized, Counter, request(CounterMutationRsp);
    SnapshotReq = 27, "SNAPSHOT_REQ", urgent, Rpc, request(SnapshotRsp);
    SchemaPullReq = 28, "SCHEMA_PULL_REQ", sized, Rpc, request(SchemaPullRsp);
    GossipShutdown = 29, "GOSSIP_SHUTDOWN", urgent, Rpc, oneway;
    EchoReq = 31, "ECHO_REQ", urgent, Rpc, request(EchoRsp);
    PaxosPrepareReq = 33, "PAXOS_PREPARE_REQ", sized, Write, request(PaxosPrepareRsp);
    PaxosProposeReq = 34, "PAXOS_PROPOSE_REQ", sized, Write, request(PaxosProposeRsp);
    PaxosCommitReq = 35, "PAXOS_COMMIT_REQ", sized, Write, request(PaxosCommitRsp);
    PingReq = 37, "PING_REQ", sized, Ping, request(PingRsp);
    Paxos2CommitRemoteReq = 38, "PAXOS2_COMMIT_REMOTE_REQ", sized, Write, request(MutationRsp);
    Paxos2CommitRemoteRsp = 39, "PAXOS2_COMMIT_REMOTE_RSP", sized, Write, response;
    Paxos2PrepareReq = 40, "PAXOS2_PREPARE_REQ", sized, Write, request(Paxos2PrepareRsp);
    Paxos2PrepareRefreshReq = 41, "PAXOS2_PREPARE_REFRESH_REQ", sized, Write, request(Paxos2PrepareRefreshRsp);
    Paxos2ProposeReq = 42, "PAXOS2_PROPOSE_REQ", sized, Write, request(Paxos2ProposeRsp);
    Paxos2CommitAndPrepareReq = 43, "PAXOS2_COMMIT_AND_PREPARE_REQ", sized, Write, request(Paxos2CommitAndPrepareRsp);
    Paxos2RepairReq = 44, "PAXOS2_REPAIR_REQ", sized, Write, request(Paxos2RepairRsp);
    Paxos2CleanupStartPrepareReq = 45, "PAXOS2_CLEANUP_START_PREPARE_REQ", sized, Repair, request(Paxos2CleanupStartPrepareRsp);
    Paxos2CleanupReq = 46, "PAXOS2_CLEANUP_REQ", sized, Repair, request(Paxos2CleanupRsp);
    Paxos2CleanupFinishPrepareReq = 47, "PAXOS2_CLEANUP_FINISH_PREPARE_REQ", sized, Repair, request(Paxos2CleanupFinishPrepareRsp);
    Paxos2CleanupCompleteReq = 48, "PAXOS2_CLEANUP_COMPLETE_REQ", sized, Repair, request(Paxos2CleanupCompleteRsp);
    Paxos2PrepareRsp = 50, "PAXOS2_PREPARE_RSP", sized, Write, response;
    Paxos2PrepareRefreshRsp = 51, "PAXOS2_PREPARE_REFRESH_RSP", sized, Write, response;
    Paxos2ProposeRsp = 52, "PAXOS2_PROPOSE_RSP", sized, Write, response;
    Paxos2CommitAndPrepareRsp = 53, "PAXOS2_COMMIT_AND_PREPARE_RSP", sized, Write, response;
    Paxos2RepairRsp = 54, "PAXOS2_REPAIR_RSP", sized, Write, response;
    Paxos2CleanupStartPrepareRsp = 55, "PAXOS2_CLEANUP_START_PREPARE_RSP", sized, Repair, response;
    Paxos2CleanupRsp = 56, "PAXOS2_CLEANUP_RSP", sized, Repair, response;
    Paxos2CleanupRsp2 = 57, "PAXOS2_CLEANUP_RSP2", sized, Repair, oneway;
    Paxos2CleanupFinishPrepareRsp = 58, "PAXOS2_CLEANUP_FINISH_PREPARE_RSP", sized, Repair, response;
    Paxos2CleanupCompleteRsp = 59, "PAXOS2_CLEANUP_COMPLETE_RSP", sized, Repair, response;
    MutationRsp = 60, "MUTATION_RSP", sized, Write, response;
    HintRsp = 61, "HINT_RSP", sized, Write, response;
    ReadRepairRsp = 62, "READ_REPAIR_RSP", sized, Write, response;
    ReadRsp = 63, "READ_RSP", sized, Read, response;
    BatchStoreRsp = 65, "BATCH_STORE_RSP", sized, Write, response;
    BatchRemoveRsp = 66, "BATCH_REMOVE_RSP", sized, Write, response;
    RangeRsp = 69, "RANGE_RSP", sized, Range, response;
    TruncateRsp = 79, "TRUNCATE_RSP", urgent, Truncate, response;
    SchemaVersionRsp = 80, "SCHEMA_VERSION_RSP", sized, Rpc, response;
    ReplicationDoneRsp = 82, "REPLICATION_DONE_RSP", urgent, Rpc, response;
    CounterMutationRsp = 84, "COUNTER_MUTATION_RSP", sized, Counter, response;
    SnapshotRsp = 87, "SNAPSHOT_RSP", urgent, Rpc, response;
    SchemaPullRsp = 88, "SCHEMA_PULL_RSP", sized, Rpc, response;
    EchoRsp = 91, "ECHO_RSP", urgent, Rpc, response;
    PaxosPrepareRsp = 93, "PAXOS_PREPARE_RSP", sized, Write, response;
    PaxosProposeRsp = 94, "PAXOS_PROPOSE_RSP", sized, Write, response;
    PaxosCommitRsp = 95, "PAXOS_COMMIT_RSP", sized, Write, response;
    PingRsp = 97, "PING_RSP", sized, Ping, response;
    SchemaPushRsp = 98, "SCHEMA_PUSH_RSP", sized, Rpc, response;
    FailureRsp = 99, "FAILURE_RSP", urgent, Rpc, response;
    RepairRsp = 100, "REPAIR_RSP", sized, Repair, response;
    ValidationReq = 101, "VALIDATION_REQ", sized, Rpc, request(RepairRsp);
    ValidationRsp = 102, "VALIDATION_RSP", sized, Rpc, request(RepairRsp);
    SyncReq = 103, "SYNC_REQ", sized, Rpc, request(RepairRsp);
    SyncRsp = 104, "SYNC_RSP", sized, Rpc, request(RepairRsp);
    PrepareMsg = 105, "PREPARE_MSG", sized, Rpc, request(RepairRsp);
    SnapshotMsg = 106, "SNAPSHOT_MSG", sized, Rpc, request(RepairRsp);
    CleanupMsg = 107, "CLEANUP_MSG", sized, Rpc, request(RepairRsp);
    PrepareConsistentReq = 108, "PREPARE_CONSISTENT_REQ", sized, Rpc, request(RepairRsp);
    PrepareConsistentRsp = 109, "PREPARE_CONSISTENT_RSP", sized, Rpc, request(RepairRsp);
    FinalizeProposeMsg = 110, "FINALIZE_PROPOSE_MSG", sized, Rpc, request(RepairRsp);
    FinalizePromiseMsg = 111, "FINALIZE_PROMISE_MSG", sized, Rpc, request(RepairRsp);
    FinalizeCommitMsg = 112, "FINALIZE_COMMIT_MSG", sized, Rpc, request(RepairRsp);
    FailedSessionMsg = 113, "FAILED_SESSION_MSG", sized, Rpc, request(RepairRsp);
    StatusReq = 114, "STATUS_REQ", sized, Repair, request(RepairRsp);
    StatusRsp = 115, "STATUS_RSP", sized, Repair, request(RepairRsp);
}

impl Verb {
    /// The verb that answers this one, for requests.
    pub fn response(self) -> Option<Self> {
        match self.role() {
            Role::Request(response) => Some(response),
            Role::Response | Role::OneWay => None,
        }
    }

    /// Whether the message's id is that of a request of ours.
    pub fn is_response(self) -> bool {
        self.role() == Role::Response
    }

    /// The connection for a message of this verb whose encoded size is `message_bytes`.
    pub fn connection(self, message_bytes: usize) -> ConnectionType {
        if message_bytes > LARGE_MESSAGE_THRESHOLD {
            ConnectionType::Large
        } else if self.is_urgent() {
            ConnectionType::Urgent
        } else {
            ConnectionType::Small
        }
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The verb of a decoded number, or an error that keeps the message's id for the log.
pub(crate) fn known_verb(verb_id: u64, message_id: u64) -> Result<Verb, DecodeError> {
    Verb::from_id(verb_id).ok_or(DecodeError::UnknownVerb {
        verb_id,
        message_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_found() {
        for pair in Verb::ALL.windows(2) {
            assert!(pair[0].id() < pair[1].id(), "{} {}", pair[0], pair[1]);
        }
        for verb in Verb::ALL {
            assert_eq!(Verb::from_id(u64::from(verb.id())), Some(*verb));
            if let Some(response) = verb.response() {
                assert!(response.is_response(), "{response} answers {verb}");
            }
        }
        assert_eq!(Verb::from_id(4), None);
    }

    #[test]
    fn size_and_urgency_choose_the_connection() {
        assert_eq!(
            Verb::GossipDigestSyn.connection(100),
            ConnectionType::Urgent
        );
        assert_eq!(Verb::ReadReq.connection(100), ConnectionType::Small);
        assert_eq!(Verb::ReadRsp.connection(1 << 20), ConnectionType::Large);
        assert_eq!(
            Timeouts::default().of(Verb::GossipDigestSyn.timeout_kind()),
            Duration::from_mins(5)
        );
    }
}
