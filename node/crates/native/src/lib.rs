//! The client protocol (CQL native protocol, versions 3, 4 and 5) as values and bytes, without any
//! socket: envelopes, frames of version 5, compression, requests, answers and events, for servers and
//! clients.
//!
//! A server feeds received bytes to a [`Decoder`], reads each envelope as a [`RequestMessage`], and
//! writes [`ResponseMessage`]s through an [`Encoder`]; after the answer to STARTUP it calls `start` on
//! both. Source: the protocol specifications of Apache Cassandra and the `transport` package of 5.0.
//!
//! Invariants:
//! N1: no input makes a decoder panic, or take memory that the input's own length does not justify.
//! N2: after an error that is not fatal the decoder stands at the next envelope.
//! N3: what one side encodes the other decodes to the same value.

pub mod client;
mod codec;
mod compression;
mod envelope;
mod error;
mod error_response;
mod event;
mod frame;
mod metadata;
mod query_parameters;
mod request;
mod response;
mod result;
pub mod type_option;
mod version;
mod wire;

pub use codec::{Decoder, Encoder};
pub use compression::Compression;
pub use envelope::{
    DEFAULT_LENGTH_LIMIT, Envelope, FLAG_COMPRESSED, FLAG_CUSTOM_PAYLOAD, FLAG_TRACING,
    FLAG_USE_BETA, FLAG_WARNING, HEADER_LENGTH, Opcode,
};
pub use error::ProtocolError;
pub use error_response::{ErrorResponse, FailureReasons, WriteType};
pub use event::{
    Event, EventType, SchemaChange, SchemaChangeKind, SchemaChangeTarget, TopologyChange,
};
pub use frame::MAX_PAYLOAD;
pub use metadata::{ColumnSpec, PreparedMetadata, RowsMetadata};
pub use query_parameters::{BoundValue, BoundValues, QueryParameters};
pub use request::{Batch, BatchKind, BatchQuery, Request, RequestMessage};
pub use response::{Response, ResponseMessage};
pub use result::{Prepared, ResultBody, Row, RowsWriter};
pub use version::ProtocolVersion;
