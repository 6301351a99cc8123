//! Requests: what clients send.

use crate::envelope::{Envelope, FLAG_CUSTOM_PAYLOAD, FLAG_TRACING, FLAG_USE_BETA, Opcode};
use crate::error::ProtocolError;
use crate::event::EventType;
use crate::query_parameters::{BoundValue, QueryParameters};
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::Reader;

/// How a batch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// Through the batch log.
    Logged,
    /// Without it.
    Unlogged,
    /// Of counter updates.
    Counter,
}

/// A statement in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchQuery {
    /// By its text.
    Text(String),
    /// By the id of PREPARE.
    Prepared(Bytes),
}

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// How it is applied.
    pub kind: BatchKind,
    /// Statements with their values.
    pub statements: Vec<(BatchQuery, Vec<BoundValue>)>,
    /// Consistency and options; its values are empty.
    pub parameters: QueryParameters,
}

/// A request's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Begins a connection.
    Startup {
        /// Options by name, in the order sent.
        options: Vec<(String, String)>,
    },
    /// Asks what is supported.
    Options,
    /// Answers AUTHENTICATE or AUTH_CHALLENGE.
    AuthResponse {
        /// The SASL token; null is allowed.
        token: Option<Bytes>,
    },
    /// Subscribes to events.
    Register {
        /// The kinds of events.
        events: Vec<EventType>,
    },
    /// Runs a statement.
    Query {
        /// Its text.
        query: String,
        /// Values and options.
        parameters: QueryParameters,
    },
    /// Prepares a statement.
    Prepare {
        /// Its text.
        query: String,
        /// Keyspace for names without one (version 5).
        keyspace: Option<String>,
    },
    /// Runs a prepared statement.
    Execute {
        /// The id of PREPARE.
        id: Bytes,
        /// The id of the result's columns that the client knows (version 5).
        result_metadata_id: Option<Bytes>,
        /// Values and options.
        parameters: QueryParameters,
    },
    /// Runs several statements.
    Batch(Batch),
}

impl Request {
    /// The opcode of the request.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Startup { .. } => Opcode::Startup,
            Self::Options => Opcode::Options,
            Self::AuthResponse { .. } => Opcode::AuthResponse,
            Self::Register { .. } => Opcode::Register,
            Self::Query { .. } => Opcode::Query,
            Self::Prepare { .. } => Opcode::Prepare,
            Self::Execute { .. } => Opcode::Execute,
            Self::Batch(_) => Opcode::Batch,
        }
    }

    fn decode(
        opcode: Opcode,
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        Ok(match opcode {
            Opcode::Startup => Self::Startup {
                options: wire::string_map(reader)?,
            },
            Opcode::Options => Self::Options,
            Opcode::AuthResponse => Self::AuthResponse {
                token: wire::bytes(reader)?,
            },
            Opcode::Register => {
                let names = wire::string_list(reader)?;
                let event = |name: &String| EventType::from_name(name, version);
                Self::Register {
                    events: names.iter().map(event).collect::<Result<_, _>>()?,
                }
            }
            Opcode::Query => {
                let query = wire::long_string(reader)?;
                Self::Query {
                    query,
                    parameters: QueryParameters::decode(reader, version)?,
                }
            }
            Opcode::Prepare => {
                let query = wire::long_string(reader)?;
                let with_keyspace = version >= ProtocolVersion::V5 && reader.u32()? & 1 == 1;
                Self::Prepare {
                    query,
                    keyspace: with_keyspace.then(|| wire::string(reader)).transpose()?,
                }
            }
            Opcode::Execute => {
                let id = wire::short_bytes(reader)?;
                let newest = version >= ProtocolVersion::V5;
                let result_metadata_id = newest.then(|| wire::short_bytes(reader)).transpose()?;
                Self::Execute {
                    id,
                    result_metadata_id,
                    parameters: QueryParameters::decode(reader, version)?,
                }
            }
            Opcode::Batch => Self::Batch(Batch::decode(reader, version)?),
            other => {
                return Err(ProtocolError::new(format!(
                    "{} is not a request",
                    other.name()
                )));
            }
        })
    }

    fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        match self {
            Self::Startup { options } => wire::put_list(out, options, |out, (name, value)| {
                wire::put_string(out, name);
                wire::put_string(out, value);
            }),
            Self::Options => {}
            Self::AuthResponse { token } => wire::put_bytes(out, token.as_deref()),
            Self::Register { events } => wire::put_list(out, events, |out, event| {
                wire::put_string(out, event.name());
            }),
            Self::Query { query, parameters } => {
                wire::put_long_string(out, query);
                parameters.encode(version, out);
            }
            Self::Prepare { query, keyspace } => {
                wire::put_long_string(out, query);
                if version >= ProtocolVersion::V5 {
                    out.put_u32(u32::from(keyspace.is_some()));
                    if let Some(keyspace) = keyspace {
                        wire::put_string(out, keyspace);
                    }
                }
            }
            Self::Execute {
                id,
                result_metadata_id,
                parameters,
            } => {
                wire::put_short_bytes(out, id);
                if version >= ProtocolVersion::V5 {
                    wire::put_short_bytes(out, result_metadata_id.as_deref().unwrap_or_default());
                }
                parameters.encode(version, out);
            }
            Self::Batch(batch) => batch.encode(version, out),
        }
    }
}

impl Batch {
    fn decode(reader: &mut Reader, version: ProtocolVersion) -> Result<Self, ProtocolError> {
        let kind = match reader.u8()?.cast_signed() {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => {
                return Err(ProtocolError::new(format!(
                    "Invalid BATCH message type {other}"
                )));
            }
        };
        let length = usize::from(reader.u16()?);
        let mut statements = Vec::with_capacity(wire::count(reader, length, 5)?);
        for _ in 0..length {
            let query = match reader.u8()?.cast_signed() {
                0 => BatchQuery::Text(wire::long_string(reader)?),
                1 => BatchQuery::Prepared(wire::short_bytes(reader)?),
                other => {
                    return Err(ProtocolError::new(format!(
                        "Invalid query kind in BATCH messages. Must be 0 or 1 but got {other}"
                    )));
                }
            };
            let count = usize::from(reader.u16()?);
            let values: Result<Vec<_>, _> = (0..wire::count(reader, count, 4)?)
                .map(|_| BoundValue::decode(reader, version))
                .collect();
            statements.push((query, values?));
        }
        Ok(Self {
            kind,
            statements,
            parameters: QueryParameters::decode(reader, version)?,
        })
    }

    fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        out.put_u8(match self.kind {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        });
        wire::put_list(out, &self.statements, |out, (query, values)| {
            match query {
                BatchQuery::Text(text) => {
                    out.put_u8(0);
                    wire::put_long_string(out, text);
                }
                BatchQuery::Prepared(id) => {
                    out.put_u8(1);
                    wire::put_short_bytes(out, id);
                }
            }
            wire::put_list(out, values, |out, value| value.encode(out));
        });
        self.parameters.encode(version, out);
    }
}

/// A request with what its envelope says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMessage {
    /// Version of the protocol.
    pub version: ProtocolVersion,
    /// Pairs the answer with it.
    pub stream: i16,
    /// The client wants the request traced.
    pub tracing: bool,
    /// The client accepts beta versions.
    pub use_beta: bool,
    /// Payload for query handlers (version 4 and later).
    pub custom_payload: Option<Vec<(String, Option<Bytes>)>>,
    /// The request.
    pub request: Request,
}

impl RequestMessage {
    /// A plain request.
    pub fn new(version: ProtocolVersion, stream: i16, request: Request) -> Self {
        Self {
            version,
            stream,
            tracing: false,
            use_beta: false,
            custom_payload: None,
            request,
        }
    }

    /// Reads the request of an envelope. Errors carry its stream.
    pub fn decode(envelope: &Envelope) -> Result<Self, ProtocolError> {
        let version = envelope.version;
        Self::decode_body(envelope).map_err(|error| error.on_stream(envelope.stream, version))
    }

    fn decode_body(envelope: &Envelope) -> Result<Self, ProtocolError> {
        let version = envelope.version;
        let mut reader = Reader::new(envelope.body.clone());
        let has_payload = envelope.flags & FLAG_CUSTOM_PAYLOAD != 0;
        if has_payload && version < ProtocolVersion::V4 {
            return Err(ProtocolError::new(
                "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4",
            ));
        }
        let custom_payload = has_payload
            .then(|| wire::bytes_map(&mut reader))
            .transpose()?;
        Ok(Self {
            version,
            stream: envelope.stream,
            tracing: envelope.flags & FLAG_TRACING != 0,
            use_beta: envelope.flags & FLAG_USE_BETA != 0,
            custom_payload,
            request: Request::decode(envelope.opcode, &mut reader, version)?,
        })
    }

    /// The request as an envelope (for clients).
    pub fn encode(&self) -> Envelope {
        let mut body = BytesMut::new();
        let payload = self
            .custom_payload
            .as_deref()
            .filter(|_| self.version >= ProtocolVersion::V4);
        if let Some(payload) = payload {
            wire::put_bytes_map(&mut body, payload);
        }
        self.request.encode(self.version, &mut body);
        let mut flags = 0;
        for (set, flag) in [
            (self.tracing, FLAG_TRACING),
            (self.use_beta, FLAG_USE_BETA),
            (payload.is_some(), FLAG_CUSTOM_PAYLOAD),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let opcode = self.request.opcode();
        Envelope {
            version: self.version,
            flags,
            stream: self.stream,
            opcode,
            body: body.freeze(),
        }
    }
}
