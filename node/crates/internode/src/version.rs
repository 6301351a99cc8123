//! Versions of the messaging protocol.

use crate::error::DecodeError;

/// A messaging version that Helenus speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessagingVersion {
    /// Cassandra 4.x, and 5.0 with `storage_compatibility_mode: CASSANDRA_4` (its default).
    V12,
    /// Cassandra 5.0 with `storage_compatibility_mode: NONE` or `UPGRADING`: expirations are unsigned 32-bit seconds.
    V13,
}

impl MessagingVersion {
    /// The number on the wire, also gossiped as NET_VERSION.
    pub fn number(self) -> u8 {
        match self {
            Self::V12 => 12,
            Self::V13 => 13,
        }
    }

    /// The version of this number.
    pub fn from_number(number: u32) -> Result<Self, DecodeError> {
        match number {
            12 => Ok(Self::V12),
            13 => Ok(Self::V13),
            other => Err(DecodeError::invalid("messaging version", other)),
        }
    }
}

/// The versions that one side of a connection accepts, both ends included. Raw numbers, because a
/// peer may accept versions that we do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// Oldest accepted.
    pub min: u8,
    /// Newest accepted.
    pub max: u8,
}

impl VersionRange {
    /// Versions 12 and 13.
    pub const ALL: Self = Self { min: 12, max: 13 };
    /// Version 12 only.
    pub const V12: Self = Self { min: 12, max: 12 };
    /// Version 13 only.
    pub const V13: Self = Self { min: 13, max: 13 };

    /// Whether `version` lies in the range.
    pub fn contains(self, version: u8) -> bool {
        (self.min..=self.max).contains(&version)
    }
}
