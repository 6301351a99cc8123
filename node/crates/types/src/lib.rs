//! CQL types and codecs, tokens, timestamps and the primitive encodings that every format of
//! Cassandra is made of. Knows nothing of tables, disks or sockets.
//!
//! Invariants:
//! T1: a decoder never reads past its input and never allocates more than its input could hold.
//! T2: `encode(decode(x)) == x` for every valid `x`; comparison agrees with Cassandra's types.
//! T3: tokens are Cassandra's own Murmur3 (signed tail bytes), never `i64::MIN` for a key.

pub mod byte_comparable;
pub mod calendar;
mod compare;
pub mod composite;
pub mod consistency;
pub mod cql_name;
pub mod cql_type;
mod duration_text;
pub mod elements;
pub mod endpoint;
pub mod java_name;
pub mod json;
pub mod json_parse;
pub mod literal;
pub mod reader;
pub mod time;
pub mod timeuuid;
pub mod token;
mod validate;
pub mod value;
pub mod vint;

pub use bytes::{BufMut, Bytes, BytesMut};
pub use consistency::ConsistencyLevel;
pub use cql_type::{CqlType, RawValue, UserType};
pub use endpoint::{Endpoint, HostId};
pub use reader::{Reader, Truncated};
pub use time::{NowInSeconds, TimestampMicros};
pub use token::{DecoratedKey, Token};
pub use value::{Decimal, Duration, Value, ValueError};
