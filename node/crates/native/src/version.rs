//! Versions of the native protocol.

/// A version that this node speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// Version 3.
    V3,
    /// Version 4.
    V4,
    /// Version 5: frames with checksums around the envelopes.
    V5,
}

impl ProtocolVersion {
    /// Every version, oldest first.
    pub const ALL: [Self; 3] = [Self::V3, Self::V4, Self::V5];
    /// The newest version.
    pub const NEWEST: Self = Self::V5;

    /// The version of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.number() == number)
    }

    /// Its number, as in the first byte of an envelope.
    pub fn number(self) -> u8 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }

    /// Its name in SUPPORTED: `5/v5`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::V3 => "3/v3",
            Self::V4 => "4/v4",
            Self::V5 => "5/v5",
        }
    }

    /// The message by which drivers recognise that they must try another version.
    pub fn unsupported_message(number: u8) -> String {
        let supported = Self::ALL.map(Self::describe).join(", ");
        format!(
            "Invalid or unsupported protocol version ({number}); supported versions are ({supported})"
        )
    }
}

impl std::fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.describe())
    }
}
