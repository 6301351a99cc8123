//! The handshake: the connecting side sends [`Initiate`], the accepting side answers [`Accept`].
//!
//! Flags of Initiate, least significant bit first: 2 bits connection type (0 for streaming),
//! 1 bit framing's low bit, 1 bit streaming, 1 bit framing's high bit, then in bytes 1 to 3 the
//! requested version (ignored since 4.0), the oldest and the newest version accepted.
//! Source: Cassandra 5.0 `net/HandshakeProtocol.java`.

use crate::crc::crc32;
use crate::error::DecodeError;
use crate::frame::Framing;
use crate::version::{MessagingVersion, VersionRange};
use crate::wire::{read_endpoint, write_endpoint};
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::{Endpoint, Reader};

/// First four bytes of every connection.
pub const PROTOCOL_MAGIC: u32 = 0xca55_2dfa;
/// The longest Initiate in bytes: magic, flags, IPv6 address and port, CRC32.
pub const MAX_INITIATE_BYTES: usize = 12 + 19;
/// The length of Accept in bytes.
pub const ACCEPT_BYTES: usize = 12;

/// What a connection carries. A peer is reached by one connection of each messaging type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionType {
    /// Gossip, echo, failures: never behind large messages.
    Urgent,
    /// Messages of at most [`crate::stream::LARGE_MESSAGE_THRESHOLD`] bytes.
    Small,
    /// All larger ones.
    Large,
    /// Streams: no message frames; see the streaming crate.
    Streaming,
}

impl ConnectionType {
    /// The number in flags and in PING_REQ (streaming has no place in either: 4, as in Cassandra).
    pub fn id(self) -> u8 {
        match self {
            Self::Urgent => 1,
            Self::Small => 2,
            Self::Large => 3,
            Self::Streaming => 4,
        }
    }

    /// The messaging connection type of this number.
    pub fn from_id(id: u8) -> Result<Self, DecodeError> {
        match id {
            1 => Ok(Self::Urgent),
            2 => Ok(Self::Small),
            3 => Ok(Self::Large),
            other => Err(DecodeError::invalid("connection type", other)),
        }
    }
}

/// The first message of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiate {
    /// Versions that the connecting side accepts.
    pub accept: VersionRange,
    /// What the connection will carry.
    pub connection: ConnectionType,
    /// How frames will be protected.
    pub framing: Framing,
    /// The connecting side's broadcast address.
    pub from: Endpoint,
}

impl Initiate {
    /// The bytes to send.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(MAX_INITIATE_BYTES);
        out.put_u32(PROTOCOL_MAGIC);
        out.put_u32(self.flags());
        write_endpoint(&mut out, &self.from);
        let crc = crc32(&out);
        out.put_u32(crc);
        out.freeze()
    }

    fn flags(&self) -> u32 {
        let kind = match self.connection {
            ConnectionType::Streaming => 1 << 3,
            messaging => u32::from(messaging.id()),
        };
        let framing = u32::from(self.framing.id());
        // ignored since 4.0 but for the encoding of the address, the same in 12 and later; Cassandra too asks for 12
        let requested = 12;
        kind | ((framing & 1) << 2)
            | ((framing & 2) << 3)
            | (requested << 8)
            | (u32::from(self.accept.min) << 16)
            | (u32::from(self.accept.max) << 24)
    }

    /// Reads an Initiate from the start of `input`: `None` when more bytes are needed, else the
    /// message and how many bytes it took.
    pub fn decode(input: &[u8]) -> Result<Option<(Self, usize)>, DecodeError> {
        let mut reader = Reader::copied(&input[..input.len().min(MAX_INITIATE_BYTES)]);
        if reader.remaining() < 4 {
            return Ok(None);
        }
        let magic = reader.u32()?;
        if magic != PROTOCOL_MAGIC {
            return Err(DecodeError::invalid(
                "protocol magic",
                format!("{magic:#010x}"),
            ));
        }
        let Ok(flags) = reader.u32() else {
            return Ok(None);
        };
        let [max, min, requested, low] = flags.to_be_bytes();
        if max < 12 || requested < 12 {
            return Err(DecodeError::invalid(
                "messaging version (Cassandra before 4.0)",
                max.max(requested),
            ));
        }
        let framing = Framing::from_id(((low >> 2) & 1) | ((low >> 3) & 2))?;
        let connection = if low & (1 << 3) != 0 {
            ConnectionType::Streaming
        } else {
            ConnectionType::from_id(low & 3)?
        };
        let from = match read_endpoint(&mut reader) {
            Ok(from) => from,
            Err(DecodeError::Truncated(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let covered = reader.position();
        let Ok(read) = reader.u32() else {
            return Ok(None);
        };
        let computed = crc32(&input[..covered]);
        if read != computed {
            return Err(DecodeError::Checksum {
                what: "handshake",
                read,
                computed,
            });
        }
        Ok(Some((
            Self {
                accept: VersionRange { min, max },
                connection,
                framing,
                from,
            },
            reader.position(),
        )))
    }

    /// What to answer, given the versions that we accept for this kind of connection. The answer is
    /// always sent; where `agreed` is an error the connection is then closed.
    pub fn respond(&self, ours: VersionRange) -> Response {
        let used = self.accept.max.min(ours.max).max(ours.min);
        let accept = Accept {
            max: u32::from(ours.max),
            used: u32::from(used),
        };
        let agreed = if self.accept.min > ours.max || self.accept.max < ours.min {
            Err(Refused {
                theirs: self.accept,
                ours,
            })
        } else {
            MessagingVersion::from_number(u32::from(used)).map_err(|_| Refused {
                theirs: self.accept,
                ours,
            })
        };
        Response { accept, agreed }
    }
}

/// The accepting side's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// To be sent in any case, so that the peer learns our versions.
    pub accept: Accept,
    /// The version of the connection, or why it must be closed.
    pub agreed: Result<MessagingVersion, Refused>,
}

/// The two sides have no messaging version in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no common messaging version: the peer accepts {}..{}, we accept {}..{}", theirs.min, theirs.max, ours.min, ours.max)]
pub struct Refused {
    /// What the peer accepts.
    pub theirs: VersionRange,
    /// What we accept.
    pub ours: VersionRange,
}

/// The answer to [`Initiate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    /// Newest version that the accepting side knows.
    pub max: u32,
    /// The version to use, or the accepting side's nearest where there is none in common.
    pub used: u32,
}

impl Accept {
    /// The bytes to send.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(ACCEPT_BYTES);
        out.put_u32(self.max);
        out.put_u32(self.used);
        let crc = crc32(&out);
        out.put_u32(crc);
        out.freeze()
    }

    /// Reads an Accept from the start of `input`: `None` when fewer than [`ACCEPT_BYTES`] are there.
    pub fn decode(input: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = Reader::copied(&input[..input.len().min(ACCEPT_BYTES)]);
        if reader.remaining() >= 4 {
            let max = reader.u32()?;
            if max < 12 {
                return Err(DecodeError::invalid(
                    "messaging version (Cassandra before 4.0)",
                    max,
                ));
            }
            if reader.remaining() == ACCEPT_BYTES - 4 {
                let used = reader.u32()?;
                let read = reader.u32()?;
                let computed = crc32(&input[..8]);
                if read != computed {
                    return Err(DecodeError::Checksum {
                        what: "handshake answer",
                        read,
                        computed,
                    });
                }
                return Ok(Some(Self { max, used }));
            }
        }
        Ok(None)
    }

    /// The version of the connection, given what we said we accept.
    pub fn agreed(&self, ours: VersionRange) -> Result<MessagingVersion, Refused> {
        let theirs = VersionRange {
            min: u8::try_from(self.used).unwrap_or(u8::MAX),
            max: u8::try_from(self.max).unwrap_or(u8::MAX),
        };
        match MessagingVersion::from_number(self.used) {
            Ok(version) if ours.contains(version.number()) => Ok(version),
            _ => Err(Refused { theirs, ours }),
        }
    }
}
