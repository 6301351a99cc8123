//! What gossip carries: digests, endpoint states, and the four messages made of them.
//! Source: Cassandra 5.0 `gms/*`; the same bytes in versions 12 and 13 but for GOSSIP_SHUTDOWN,
//! which has a payload only in 13.

use crate::error::{DecodeError, EncodeError};
use crate::verb::Verb;
use crate::version::MessagingVersion;
use crate::wire::{
    read_count, read_endpoint, read_tokens, read_utf, write_count, write_endpoint, write_tokens,
    write_utf,
};
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::{Endpoint, Reader, Token};
use std::collections::BTreeMap;

macro_rules! application_states {
    ($($name:ident = $ordinal:literal, $text:literal;)*) => {
        /// What a [`VersionedValue`] is about. On the wire: the ordinal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are the documentation: Cassandra's own")]
        pub enum ApplicationState { $($name,)* }

        impl ApplicationState {
            /// The number on the wire.
            pub fn ordinal(self) -> i32 {
                match self { $(Self::$name => $ordinal,)* }
            }

            /// The state of this number.
            pub fn from_ordinal(ordinal: i32) -> Option<Self> {
                match ordinal { $($ordinal => Some(Self::$name),)* _ => None }
            }

            /// Cassandra's name, as `nodetool gossipinfo` shows it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

application_states! {
    Status = 0, "STATUS";
    Load = 1, "LOAD";
    Schema = 2, "SCHEMA";
    Dc = 3, "DC";
    Rack = 4, "RACK";
    ReleaseVersion = 5, "RELEASE_VERSION";
    RemovalCoordinator = 6, "REMOVAL_COORDINATOR";
    InternalIp = 7, "INTERNAL_IP";
    RpcAddress = 8, "RPC_ADDRESS";
    X11Padding = 9, "X_11_PADDING";
    Severity = 10, "SEVERITY";
    NetVersion = 11, "NET_VERSION";
    HostId = 12, "HOST_ID";
    Tokens = 13, "TOKENS";
    RpcReady = 14, "RPC_READY";
    InternalAddressAndPort = 15, "INTERNAL_ADDRESS_AND_PORT";
    NativeAddressAndPort = 16, "NATIVE_ADDRESS_AND_PORT";
    StatusWithPort = 17, "STATUS_WITH_PORT";
    SstableVersions = 18, "SSTABLE_VERSIONS";
    DiskUsage = 19, "DISK_USAGE";
    IndexStatus = 20, "INDEX_STATUS";
    X1 = 21, "X1";
    X2 = 22, "X2";
    X3 = 23, "X3";
    X4 = 24, "X4";
    X5 = 25, "X5";
    X6 = 26, "X6";
    X7 = 27, "X7";
    X8 = 28, "X8";
    X9 = 29, "X9";
    X10 = 30, "X10";
}

/// A value with the version at which its node set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// The text; TOKENS holds bytes as the characters U+0000 to U+00FF.
    pub value: String,
    /// The node's version counter when it was set.
    pub version: i32,
}

impl VersionedValue {
    /// A value at a version.
    pub fn new(value: impl Into<String>, version: i32) -> Self {
        Self {
            value: value.into(),
            version,
        }
    }

    fn write(&self, out: &mut impl BufMut) -> Result<(), EncodeError> {
        write_utf(out, &self.value)?;
        out.put_i32(self.version);
        Ok(())
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            value: read_utf(reader)?,
            version: reader.i32()?,
        })
    }
}

/// When the node started, and how often its heart has beaten since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeartBeatState {
    /// Seconds since 1970 at the node's start; each start has a larger one.
    pub generation: i32,
    /// The node's version counter.
    pub version: i32,
}

impl HeartBeatState {
    /// The version of a node that has shut down, and of an empty state.
    pub const SHUTDOWN_VERSION: i32 = i32::MAX;
}

/// All that gossip knows of a node, or the part of it that is news.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointState {
    /// The heartbeat.
    pub heartbeat: HeartBeatState,
    /// The values.
    pub states: BTreeMap<ApplicationState, VersionedValue>,
}

impl EndpointState {
    /// The text of a state.
    pub fn get(&self, state: ApplicationState) -> Option<&str> {
        self.states.get(&state).map(|v| v.value.as_str())
    }

    /// The newest version in it.
    pub fn max_version(&self) -> i32 {
        self.states
            .values()
            .map(|v| v.version)
            .fold(self.heartbeat.version, i32::max)
    }

    /// The status: STATUS_WITH_PORT, else STATUS, else empty.
    pub fn status(&self) -> &str {
        self.get(ApplicationState::StatusWithPort)
            .or_else(|| self.get(ApplicationState::Status))
            .unwrap_or("")
    }

    /// The tokens of TOKENS.
    pub fn tokens(&self) -> Result<Vec<Token>, DecodeError> {
        self.get(ApplicationState::Tokens)
            .map_or(Ok(Vec::new()), decode_token_text)
    }

    /// Writes it.
    pub fn write(&self, out: &mut impl BufMut) -> Result<(), EncodeError> {
        out.put_i32(self.heartbeat.generation);
        out.put_i32(self.heartbeat.version);
        write_count(out, self.states.len());
        for (state, value) in &self.states {
            out.put_i32(state.ordinal());
            value.write(out)?;
        }
        Ok(())
    }

    /// Reads it. States of numbers that nobody has defined yet are dropped.
    pub fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let heartbeat = HeartBeatState {
            generation: reader.i32()?,
            version: reader.i32()?,
        };
        let count = read_count(reader, 10, "count of application states")?;
        let mut states = BTreeMap::new();
        for _ in 0..count {
            let ordinal = reader.i32()?;
            let value = VersionedValue::read(reader)?;
            if let Some(state) = ApplicationState::from_ordinal(ordinal) {
                states.insert(state, value);
            }
        }
        Ok(Self { heartbeat, states })
    }
}

/// The text of TOKENS for these tokens: their bytes as the characters U+0000 to U+00FF.
pub fn encode_token_text(tokens: &[Token]) -> String {
    let mut bytes = Vec::with_capacity(tokens.len() * 12 + 4);
    write_tokens(&mut bytes, tokens);
    bytes.into_iter().map(char::from).collect()
}

/// The tokens in the text of TOKENS.
pub fn decode_token_text(text: &str) -> Result<Vec<Token>, DecodeError> {
    let bytes = text.chars().map(|c| {
        u8::try_from(u32::from(c)).map_err(|_| DecodeError::invalid("character of TOKENS", c))
    });
    let bytes = bytes.collect::<Result<Vec<u8>, _>>()?;
    read_tokens(&mut Reader::new(bytes.into()))
}

/// What the sender knows of a node, without the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GossipDigest {
    /// The node.
    pub endpoint: Endpoint,
    /// Its generation as the sender knows it; 0 when it knows nothing.
    pub generation: i32,
    /// The newest version that the sender has.
    pub max_version: i32,
}

fn write_digests(out: &mut impl BufMut, digests: &[GossipDigest]) {
    write_count(out, digests.len());
    for digest in digests {
        write_endpoint(out, &digest.endpoint);
        out.put_i32(digest.generation);
        out.put_i32(digest.max_version);
    }
}

fn read_digests(reader: &mut Reader) -> Result<Vec<GossipDigest>, DecodeError> {
    let count = read_count(reader, 15, "count of gossip digests")?;
    (0..count)
        .map(|_| {
            Ok(GossipDigest {
                endpoint: read_endpoint(reader)?,
                generation: reader.i32()?,
                max_version: reader.i32()?,
            })
        })
        .collect()
}

/// States by node, in the order of endpoints.
pub type EndpointStates = BTreeMap<Endpoint, EndpointState>;

fn write_states(out: &mut impl BufMut, states: &EndpointStates) -> Result<(), EncodeError> {
    write_count(out, states.len());
    for (endpoint, state) in states {
        write_endpoint(out, endpoint);
        state.write(out)?;
    }
    Ok(())
}

fn read_states(reader: &mut Reader) -> Result<EndpointStates, DecodeError> {
    let count = read_count(reader, 19, "count of endpoint states")?;
    (0..count)
        .map(|_| Ok((read_endpoint(reader)?, EndpointState::read(reader)?)))
        .collect()
}

/// A message of the gossip protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GossipMessage {
    /// GOSSIP_DIGEST_SYN: what I know.
    Syn {
        /// `cluster_name`; a node of another cluster is ignored.
        cluster: String,
        /// Class name of the partitioner.
        partitioner: String,
        /// What the sender knows; empty in a shadow round.
        digests: Vec<GossipDigest>,
    },
    /// GOSSIP_DIGEST_ACK: what I lack, and what you lack.
    Ack {
        /// What the sender wants, from these versions on.
        digests: Vec<GossipDigest>,
        /// News for the receiver. Empty with empty digests: the sender is itself in its shadow round.
        states: EndpointStates,
    },
    /// GOSSIP_DIGEST_ACK2: what you asked for.
    Ack2 {
        /// News for the receiver.
        states: EndpointStates,
    },
    /// GOSSIP_SHUTDOWN: I am going down. The state comes in version 13 only.
    Shutdown {
        /// The sender's last state.
        state: Option<EndpointState>,
    },
    /// ECHO_REQ: are you there?
    EchoRequest,
    /// ECHO_RSP: I am.
    EchoResponse,
}

impl GossipMessage {
    /// The verb that carries it.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Syn { .. } => Verb::GossipDigestSyn,
            Self::Ack { .. } => Verb::GossipDigestAck,
            Self::Ack2 { .. } => Verb::GossipDigestAck2,
            Self::Shutdown { .. } => Verb::GossipShutdown,
            Self::EchoRequest => Verb::EchoReq,
            Self::EchoResponse => Verb::EchoRsp,
        }
    }

    /// The payload for a connection of this version.
    pub fn encode(&self, version: MessagingVersion) -> Result<Bytes, EncodeError> {
        let mut out = BytesMut::new();
        match self {
            Self::Syn {
                cluster,
                partitioner,
                digests,
            } => {
                write_utf(&mut out, cluster)?;
                write_utf(&mut out, partitioner)?;
                write_digests(&mut out, digests);
            }
            Self::Ack { digests, states } => {
                write_digests(&mut out, digests);
                write_states(&mut out, states)?;
            }
            Self::Ack2 { states } => write_states(&mut out, states)?,
            Self::Shutdown { state } => {
                if version >= MessagingVersion::V13 {
                    // the payload is not optional in version 13
                    state
                        .as_ref()
                        .unwrap_or(&EndpointState::default())
                        .write(&mut out)?;
                }
            }
            Self::EchoRequest | Self::EchoResponse => {}
        }
        Ok(out.freeze())
    }

    /// Reads the payload of `verb`; an error for verbs that are not gossip.
    pub fn decode(
        verb: Verb,
        payload: Bytes,
        version: MessagingVersion,
    ) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(payload);
        Ok(match verb {
            Verb::GossipDigestSyn => Self::Syn {
                cluster: read_utf(reader)?,
                partitioner: read_utf(reader)?,
                digests: read_digests(reader)?,
            },
            Verb::GossipDigestAck => Self::Ack {
                digests: read_digests(reader)?,
                states: read_states(reader)?,
            },
            Verb::GossipDigestAck2 => Self::Ack2 {
                states: read_states(reader)?,
            },
            Verb::GossipShutdown if version >= MessagingVersion::V13 => Self::Shutdown {
                state: Some(EndpointState::read(reader)?),
            },
            Verb::GossipShutdown => Self::Shutdown { state: None },
            Verb::EchoReq => Self::EchoRequest,
            Verb::EchoRsp => Self::EchoResponse,
            other => return Err(DecodeError::invalid("gossip verb", other)),
        })
    }
}
