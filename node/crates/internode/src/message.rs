//! One message: header, parameters, payload.
//!
//! Layout: id (unsigned vint), low 32 bits of the creation time in ms since 1970, life in ms
//! (unsigned vint), verb, flags, count of parameters (unsigned vints), parameters, payload size
//! (unsigned vint), payload. The same in versions 12 and 13.
//! Source: Cassandra 5.0 `net/Message.java`.

use crate::error::{DecodeError, EncodeError};
use crate::params::{Param, read_params, write_params};
use crate::verb::{Timeouts, Verb, known_verb};
use bytes::{BufMut, Bytes};
use helenus_types::{Endpoint, Reader, Truncated, vint};

/// `internode_max_message_size` by default: 128 MiB (Cassandra: the smaller of half its per-endpoint
/// reserve and this, by default 64 MiB; the receiver's setting decides).
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 128 << 20;

/// Flags of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// Answer FAILURE_RSP when the request fails.
    pub const CALL_BACK_ON_FAILURE: Self = Self(1);
    /// Answer with a digest of repaired data too.
    pub const TRACK_REPAIRED_DATA: Self = Self(2);
    /// Report tombstones and sizes in parameters.
    pub const TRACK_WARNINGS: Self = Self(4);

    /// Whether all flags of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Everything of a message but its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender of the request; the response repeats it.
    pub id: u64,
    /// What the message is.
    pub verb: Verb,
    /// Low 32 bits of the sender's wall time in milliseconds since 1970.
    pub created_ms: u32,
    /// How many milliseconds after its creation nobody wants an answer any more.
    pub expires_after_ms: u64,
    /// Flags.
    pub flags: Flags,
    /// Parameters, each kind at most once.
    pub params: Vec<Param>,
}

impl Header {
    /// A header without flags and parameters, created at `now_ms` (since 1970), that lives as long
    /// as the verb's timeout.
    pub fn new(id: u64, verb: Verb, now_ms: i64, timeouts: &Timeouts) -> Self {
        let life = timeouts.of(verb.timeout_kind()).as_millis();
        Self {
            id,
            verb,
            created_ms: low_32_bits(now_ms),
            expires_after_ms: u64::try_from(life).unwrap_or(u64::MAX),
            flags: Flags::default(),
            params: Vec::new(),
        }
    }

    /// When it was created, in milliseconds since 1970, rebuilt with the receiver's clock; a time
    /// more than 15 minutes away from it is taken as a wrong clock and replaced by it.
    pub fn created_at_ms(&self, now_ms: i64) -> i64 {
        let difference = self
            .created_ms
            .wrapping_sub(low_32_bits(now_ms))
            .cast_signed();
        if difference.unsigned_abs() > 15 * 60 * 1000 {
            now_ms
        } else {
            now_ms.saturating_add(i64::from(difference))
        }
    }

    /// Whom to answer: the endpoint named by RESPOND_TO, else the sender.
    pub fn respond_to(&self, sender: Endpoint) -> Endpoint {
        let named = self.params.iter().find_map(|p| {
            if let Param::RespondTo(endpoint) = p {
                Some(*endpoint)
            } else {
                None
            }
        });
        named.unwrap_or(sender)
    }
}

fn low_32_bits(ms: i64) -> u32 {
    let [_, _, _, _, a, b, c, d] = ms.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// A message with its payload still encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Everything but the payload.
    pub header: Header,
    /// The verb's payload in the connection's version; empty where the verb has none.
    pub payload: Bytes,
}

impl Message {
    /// A request or one-way message.
    pub fn new(id: u64, verb: Verb, payload: Bytes, now_ms: i64, timeouts: &Timeouts) -> Self {
        Self {
            header: Header::new(id, verb, now_ms, timeouts),
            payload,
        }
    }

    /// The answer to `request`: its id, its verb's response verb, its remaining life.
    /// `None` when the verb is not a request.
    pub fn response_to(request: &Header, payload: Bytes, now_ms: i64) -> Option<Self> {
        request
            .verb
            .response()
            .map(|verb| Self::answer(request, verb, payload, now_ms))
    }

    /// FAILURE_RSP to `request`.
    pub fn failure_of(
        request: &Header,
        reason: crate::payload::FailureReason,
        now_ms: i64,
    ) -> Self {
        Self::answer(request, Verb::FailureRsp, reason.encode(), now_ms)
    }

    fn answer(request: &Header, verb: Verb, payload: Bytes, now_ms: i64) -> Self {
        let age = now_ms.saturating_sub(request.created_at_ms(now_ms));
        let left = request
            .expires_after_ms
            .saturating_sub(u64::try_from(age).unwrap_or(0));
        let header = Header {
            id: request.id,
            verb,
            created_ms: low_32_bits(now_ms),
            expires_after_ms: left,
            flags: Flags::default(),
            params: Vec::new(),
        };
        Self { header, payload }
    }

    /// The encoded bytes.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let header = &self.header;
        let mut out = Vec::with_capacity(32 + self.payload.len());
        vint::write_unsigned(&mut out, header.id);
        out.put_u32(header.created_ms);
        vint::write_unsigned(&mut out, header.expires_after_ms);
        vint::write_unsigned(&mut out, u64::from(header.verb.id()));
        vint::write_unsigned(&mut out, u64::from(header.flags.0));
        write_params(&mut out, &header.params)?;
        vint::write_unsigned(&mut out, self.payload.len() as u64);
        out.put_slice(&self.payload);
        Ok(out)
    }

    /// Reads one message. On [`DecodeError::UnknownVerb`] the reader stands behind the message.
    pub fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let id = reader.unsigned_vint()?;
        let created_ms = reader.u32()?;
        let expires_after_ms = reader.unsigned_vint()?;
        let verb_id = reader.unsigned_vint()?;
        let flags = reader.unsigned_vint()?;
        let flags = Flags(u32::try_from(flags).map_err(|_| DecodeError::invalid("flags", flags))?);
        let params = read_params(reader)?;
        let payload = reader.vint_bytes()?;
        let verb = known_verb(verb_id, id)?;
        Ok(Self {
            header: Header {
                id,
                verb,
                created_ms,
                expires_after_ms,
                flags,
                params,
            },
            payload,
        })
    }

    /// The whole length of the message whose first bytes are `start`; [`Truncated`] when the header
    /// is not wholly there.
    pub(crate) fn length_of(start: &Bytes) -> Result<u64, Truncated> {
        let mut reader = Reader::new(start.clone());
        reader.unsigned_vint()?;
        reader.skip(4)?;
        for _ in 0..3 {
            reader.unsigned_vint()?;
        }
        for _ in 0..reader.unsigned_vint()? {
            reader.unsigned_vint()?;
            let length = reader.vint_length()?;
            reader.skip(length)?;
        }
        let payload = reader.unsigned_vint()?;
        Ok(payload.saturating_add(reader.position() as u64))
    }
}
