//! The types of CQL.

use bytes::Bytes;
use std::sync::Arc;

/// A CQL type. `frozen` on collections and user types says whether the value is one cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CqlType {
    /// US-ASCII text.
    Ascii,
    /// 64-bit signed integer.
    BigInt,
    /// Bytes.
    Blob,
    /// True or false.
    Boolean,
    /// 64-bit distributed counter.
    Counter,
    /// Days since −5877641-06-23 as unsigned 32-bit, 1970-01-01 in the middle (2^31).
    Date,
    /// Unscaled varint with a 32-bit scale.
    Decimal,
    /// IEEE 754 double.
    Double,
    /// Months, days, nanoseconds.
    Duration,
    /// Cassandra's EmptyType: only the empty value (compact tables).
    Empty,
    /// IEEE 754 float.
    Float,
    /// IPv4 or IPv6 address.
    Inet,
    /// 32-bit signed integer.
    Int,
    /// 16-bit signed integer.
    SmallInt,
    /// UTF-8 text (`text` and `varchar`).
    Text,
    /// Nanoseconds since midnight.
    Time,
    /// Milliseconds since 1970.
    Timestamp,
    /// Version 1 UUID, ordered by time.
    TimeUuid,
    /// 8-bit signed integer.
    TinyInt,
    /// Any UUID.
    Uuid,
    /// Integer of any size.
    VarInt,
    /// List of elements.
    List {
        /// Type of an element.
        element: Arc<CqlType>,
        /// One cell instead of one per element.
        frozen: bool,
    },
    /// Set of distinct elements in their order.
    Set {
        /// Type of an element.
        element: Arc<CqlType>,
        /// One cell instead of one per element.
        frozen: bool,
    },
    /// Map of distinct keys in their order.
    Map {
        /// Type of a key.
        key: Arc<CqlType>,
        /// Type of a value.
        value: Arc<CqlType>,
        /// One cell instead of one per entry.
        frozen: bool,
    },
    /// Tuple; always frozen.
    Tuple(Arc<[CqlType]>),
    /// User-defined type.
    Udt(Arc<UserType>),
    /// Fixed count of elements, always frozen.
    Vector {
        /// Type of an element.
        element: Arc<CqlType>,
        /// Count of elements, at least 1.
        dimension: u32,
    },
    /// A Java class that this node knows only by name; its values are compared as bytes.
    Custom(Arc<str>),
}

/// A user-defined type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserType {
    /// Keyspace that owns it.
    pub keyspace: String,
    /// Name without quotes.
    pub name: String,
    /// Field names and types in order.
    pub fields: Vec<(String, CqlType)>,
    /// One cell instead of one per field.
    pub frozen: bool,
}

impl CqlType {
    /// Whether a value takes several cells: a non-frozen collection or user type.
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { frozen, .. } | Self::Set { frozen, .. } | Self::Map { frozen, .. } => {
                !frozen
            }
            Self::Udt(user_type) => !user_type.frozen,
            _ => false,
        }
    }
}

/// A value as sent on the wire and stored: `None` is null.
pub type RawValue = Option<Bytes>;
