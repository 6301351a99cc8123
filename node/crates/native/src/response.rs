//! Answers and events: what servers send.

use crate::compression::Compression;
use crate::envelope::{Envelope, FLAG_CUSTOM_PAYLOAD, FLAG_TRACING, FLAG_WARNING, Opcode};
use crate::error::ProtocolError;
use crate::error_response::ErrorResponse;
use crate::event::Event;
use crate::result::ResultBody;
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::{Bytes, BytesMut};
use helenus_types::Reader;
use uuid::Uuid;

/// An answer's or event's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The request failed.
    Error(ErrorResponse),
    /// The connection may be used.
    Ready,
    /// The client must authenticate.
    Authenticate {
        /// Java class of the authenticator, by which drivers choose theirs.
        authenticator: String,
    },
    /// The authenticator asks on.
    AuthChallenge {
        /// The SASL token.
        token: Option<Bytes>,
    },
    /// The client is who it says it is.
    AuthSuccess {
        /// The SASL token.
        token: Option<Bytes>,
    },
    /// Options and what they may be.
    Supported {
        /// Options in the order to send them.
        options: Vec<(String, Vec<String>)>,
    },
    /// A statement's result.
    Result(ResultBody),
    /// Something happened to which the client subscribed.
    Event(Event),
}

impl Response {
    /// What this node supports, as Cassandra lists it.
    pub fn supported(cql_version: &str) -> Self {
        let versions = ProtocolVersion::ALL
            .map(|version| version.describe().to_owned())
            .to_vec();
        let compression = Compression::NAMES.map(str::to_owned).to_vec();
        Self::Supported {
            options: vec![
                ("PROTOCOL_VERSIONS".to_owned(), versions),
                ("COMPRESSION".to_owned(), compression),
                ("CQL_VERSION".to_owned(), vec![cql_version.to_owned()]),
            ],
        }
    }

    /// The opcode of the answer.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate { .. } => Opcode::Authenticate,
            Self::AuthChallenge { .. } => Opcode::AuthChallenge,
            Self::AuthSuccess { .. } => Opcode::AuthSuccess,
            Self::Supported { .. } => Opcode::Supported,
            Self::Result(_) => Opcode::Result,
            Self::Event(_) => Opcode::Event,
        }
    }

    fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        match self {
            Self::Error(error) => error.encode(version, out),
            Self::Ready => {}
            Self::Authenticate { authenticator } => wire::put_string(out, authenticator),
            Self::AuthChallenge { token } | Self::AuthSuccess { token } => {
                wire::put_bytes(out, token.as_deref());
            }
            Self::Supported { options } => wire::put_list(out, options, |out, (name, values)| {
                wire::put_string(out, name);
                wire::put_string_list(out, values);
            }),
            Self::Result(result) => result.encode(version, out),
            Self::Event(event) => event.encode(version, out),
        }
    }

    fn decode(
        opcode: Opcode,
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        Ok(match opcode {
            Opcode::Error => Self::Error(ErrorResponse::decode(reader, version)?),
            Opcode::Ready => Self::Ready,
            Opcode::Authenticate => Self::Authenticate {
                authenticator: wire::string(reader)?,
            },
            Opcode::AuthChallenge => Self::AuthChallenge {
                token: wire::bytes(reader)?,
            },
            Opcode::AuthSuccess => Self::AuthSuccess {
                token: wire::bytes(reader)?,
            },
            Opcode::Supported => Self::Supported {
                options: wire::string_multimap(reader)?,
            },
            Opcode::Result => Self::Result(ResultBody::decode(reader, version)?),
            Opcode::Event => Self::Event(Event::decode(reader, version)?),
            other => {
                return Err(ProtocolError::new(format!(
                    "{} is not an answer",
                    other.name()
                )));
            }
        })
    }
}

/// An answer with what its envelope says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseMessage {
    /// Version of the protocol.
    pub version: ProtocolVersion,
    /// The request's stream; −1 for events.
    pub stream: i16,
    /// The session of the trace, when the request was traced.
    pub tracing_id: Option<Uuid>,
    /// Warnings for people (version 4 and later; left out before).
    pub warnings: Vec<String>,
    /// Payload of query handlers (version 4 and later; left out before).
    pub custom_payload: Option<Vec<(String, Option<Bytes>)>>,
    /// The answer.
    pub response: Response,
}

impl ResponseMessage {
    /// A plain answer.
    pub fn new(version: ProtocolVersion, stream: i16, response: Response) -> Self {
        Self {
            version,
            stream,
            tracing_id: None,
            warnings: Vec::new(),
            custom_payload: None,
            response,
        }
    }

    /// An event.
    pub fn event(version: ProtocolVersion, event: Event) -> Self {
        Self::new(version, -1, Response::Event(event))
    }

    /// The answer as an envelope.
    pub fn encode(&self) -> Envelope {
        let mut body = BytesMut::new();
        let mut flags = 0;
        let has_extras = self.version >= ProtocolVersion::V4;
        if let Some(id) = &self.tracing_id {
            flags |= FLAG_TRACING;
            body.extend_from_slice(id.as_bytes());
        }
        if has_extras && !self.warnings.is_empty() {
            flags |= FLAG_WARNING;
            wire::put_string_list(&mut body, &self.warnings);
        }
        if let Some(payload) = self.custom_payload.as_deref().filter(|_| has_extras) {
            flags |= FLAG_CUSTOM_PAYLOAD;
            wire::put_bytes_map(&mut body, payload);
        }
        let opcode = self.response.opcode();
        let body = match &self.response {
            // Written already: no copy unless something stands before it.
            Response::Result(ResultBody::RawRows(rows)) if body.is_empty() => rows.clone(),
            response => {
                response.encode(self.version, &mut body);
                body.freeze()
            }
        };
        Envelope {
            version: self.version,
            flags,
            stream: self.stream,
            opcode,
            body,
        }
    }

    /// Reads the answer of an envelope (for clients).
    pub fn decode(envelope: &Envelope) -> Result<Self, ProtocolError> {
        let version = envelope.version;
        let mut reader = Reader::new(envelope.body.clone());
        let has = |flag: u8| envelope.flags & flag != 0;
        let tracing_id = if has(FLAG_TRACING) {
            Some(Uuid::from_bytes(reader.array()?))
        } else {
            None
        };
        let warnings = if has(FLAG_WARNING) {
            wire::string_list(&mut reader)?
        } else {
            Vec::new()
        };
        let custom_payload = if has(FLAG_CUSTOM_PAYLOAD) {
            Some(wire::bytes_map(&mut reader)?)
        } else {
            None
        };
        let response = Response::decode(envelope.opcode, &mut reader, version)?;
        Ok(Self {
            version,
            stream: envelope.stream,
            tracing_id,
            warnings,
            custom_payload,
            response,
        })
    }
}
