//! Consistency levels with their codes in the native protocol.

/// How many replicas must answer before a request is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConsistencyLevel {
    /// A hint suffices (writes only).
    Any,
    /// One replica.
    One,
    /// Two replicas.
    Two,
    /// Three replicas.
    Three,
    /// A majority over all data centers.
    Quorum,
    /// Every replica.
    All,
    /// A majority in the coordinator's data center.
    LocalQuorum,
    /// A majority in each data center.
    EachQuorum,
    /// Linearizable over all data centers (conditional updates).
    Serial,
    /// Linearizable in the coordinator's data center.
    LocalSerial,
    /// One replica in the coordinator's data center.
    LocalOne,
    /// This node only.
    NodeLocal,
}

impl ConsistencyLevel {
    /// Every level with its code and name, in the order of the codes.
    pub const ALL: [(Self, u16, &'static str); 12] = [
        (Self::Any, 0, "ANY"),
        (Self::One, 1, "ONE"),
        (Self::Two, 2, "TWO"),
        (Self::Three, 3, "THREE"),
        (Self::Quorum, 4, "QUORUM"),
        (Self::All, 5, "ALL"),
        (Self::LocalQuorum, 6, "LOCAL_QUORUM"),
        (Self::EachQuorum, 7, "EACH_QUORUM"),
        (Self::Serial, 8, "SERIAL"),
        (Self::LocalSerial, 9, "LOCAL_SERIAL"),
        (Self::LocalOne, 10, "LOCAL_ONE"),
        (Self::NodeLocal, 11, "NODE_LOCAL"),
    ];

    /// The level with this code.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|entry| entry.1 == code)
            .map(|entry| entry.0)
    }

    /// The code in the native protocol.
    pub fn code(self) -> u16 {
        Self::ALL
            .iter()
            .find(|entry| entry.0 == self)
            .map_or(0, |entry| entry.1)
    }

    /// Whether it is SERIAL or LOCAL_SERIAL.
    pub fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }

    /// Whether only the local data center counts.
    pub fn is_local(self) -> bool {
        matches!(
            self,
            Self::LocalOne | Self::LocalQuorum | Self::LocalSerial | Self::NodeLocal
        )
    }
}

impl std::fmt::Display for ConsistencyLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            Self::ALL
                .iter()
                .find(|entry| entry.0 == *self)
                .map_or("", |entry| entry.2),
        )
    }
}
