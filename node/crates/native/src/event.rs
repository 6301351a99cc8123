//! Events, and schema changes, which are results as well.

use crate::error::ProtocolError;
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::BytesMut;
use helenus_types::Reader;
use std::net::SocketAddr;

/// A kind of event to which a client may subscribe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nodes come and go for good.
    TopologyChange,
    /// Nodes go up and down.
    StatusChange,
    /// The schema changes.
    SchemaChange,
    /// A trace is complete; accepted (version 4 and later) and, as in Cassandra, never sent.
    TraceComplete,
}

impl EventType {
    const ALL: [(Self, &'static str); 4] = [
        (Self::TopologyChange, "TOPOLOGY_CHANGE"),
        (Self::StatusChange, "STATUS_CHANGE"),
        (Self::SchemaChange, "SCHEMA_CHANGE"),
        (Self::TraceComplete, "TRACE_COMPLETE"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|entry| entry.0 == self)
            .map_or("", |entry| entry.1)
    }

    pub(crate) fn from_name(name: &str, version: ProtocolVersion) -> Result<Self, ProtocolError> {
        let found = enum_value(&Self::ALL, name, "Type")?;
        if found == Self::TraceComplete && version < ProtocolVersion::V4 {
            return Err(ProtocolError::new(format!(
                "Event {name} not valid for protocol version {version}"
            )));
        }
        Ok(found)
    }
}

fn enum_value<T: Copy>(
    all: &[(T, &'static str)],
    name: &str,
    what: &str,
) -> Result<T, ProtocolError> {
    all.iter()
        .find(|entry| entry.1.eq_ignore_ascii_case(name))
        .map(|entry| entry.0)
        .ok_or_else(|| ProtocolError::new(format!("Invalid value '{name}' for {what}")))
}

fn enum_name<T: Copy + PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter()
        .find(|entry| entry.0 == value)
        .map_or("", |entry| entry.1)
}

/// What happened to the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyChange {
    /// A node joined.
    NewNode,
    /// A node left.
    RemovedNode,
    /// A node took other tokens.
    MovedNode,
}

const TOPOLOGY_CHANGES: [(TopologyChange, &str); 3] = [
    (TopologyChange::NewNode, "NEW_NODE"),
    (TopologyChange::RemovedNode, "REMOVED_NODE"),
    (TopologyChange::MovedNode, "MOVED_NODE"),
];

const STATUSES: [(bool, &str); 2] = [(true, "UP"), (false, "DOWN")];

/// What happened to a part of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaChangeKind {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

const SCHEMA_CHANGE_KINDS: [(SchemaChangeKind, &str); 3] = [
    (SchemaChangeKind::Created, "CREATED"),
    (SchemaChangeKind::Updated, "UPDATED"),
    (SchemaChangeKind::Dropped, "DROPPED"),
];

/// The part of the schema that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaChangeTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table, view or index of a table.
    Table(String),
    /// A user-defined type.
    Type(String),
    /// A function by name and CQL types of its arguments.
    Function(String, Vec<String>),
    /// An aggregate by name and CQL types of its arguments.
    Aggregate(String, Vec<String>),
}

/// A change of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub kind: SchemaChangeKind,
    /// The keyspace.
    pub keyspace: String,
    /// To what in it.
    pub target: SchemaChangeTarget,
}

impl SchemaChange {
    pub(crate) fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let routine = matches!(
            self.target,
            SchemaChangeTarget::Function(..) | SchemaChangeTarget::Aggregate(..)
        );
        if routine && version < ProtocolVersion::V4 {
            // Version 3 has no words for functions: the keyspace was updated.
            let kind = SchemaChangeKind::Updated;
            let change = Self {
                kind,
                keyspace: self.keyspace.clone(),
                target: SchemaChangeTarget::Keyspace,
            };
            return change.encode(version, out);
        }
        let (target, name, arguments) = match &self.target {
            SchemaChangeTarget::Keyspace => ("KEYSPACE", None, None),
            SchemaChangeTarget::Table(name) => ("TABLE", Some(name), None),
            SchemaChangeTarget::Type(name) => ("TYPE", Some(name), None),
            SchemaChangeTarget::Function(name, arguments) => {
                ("FUNCTION", Some(name), Some(arguments))
            }
            SchemaChangeTarget::Aggregate(name, arguments) => {
                ("AGGREGATE", Some(name), Some(arguments))
            }
        };
        wire::put_string(out, enum_name(&SCHEMA_CHANGE_KINDS, self.kind));
        wire::put_string(out, target);
        wire::put_string(out, &self.keyspace);
        if let Some(name) = name {
            wire::put_string(out, name);
        }
        if let Some(arguments) = arguments {
            wire::put_string_list(out, arguments);
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, ProtocolError> {
        let kind = enum_value(&SCHEMA_CHANGE_KINDS, &wire::string(reader)?, "Change")?;
        let target = wire::string(reader)?;
        let keyspace = wire::string(reader)?;
        let target = match target.as_str() {
            "KEYSPACE" => SchemaChangeTarget::Keyspace,
            "TABLE" => SchemaChangeTarget::Table(wire::string(reader)?),
            "TYPE" => SchemaChangeTarget::Type(wire::string(reader)?),
            "FUNCTION" => {
                SchemaChangeTarget::Function(wire::string(reader)?, wire::string_list(reader)?)
            }
            "AGGREGATE" => {
                SchemaChangeTarget::Aggregate(wire::string(reader)?, wire::string_list(reader)?)
            }
            other => {
                return Err(ProtocolError::new(format!(
                    "Invalid value '{other}' for Target"
                )));
            }
        };
        Ok(Self {
            kind,
            keyspace,
            target,
        })
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The ring changed.
    Topology {
        /// What happened.
        change: TopologyChange,
        /// The node's client address.
        node: SocketAddr,
    },
    /// A node went up or down.
    Status {
        /// Whether it is up now.
        up: bool,
        /// The node's client address.
        node: SocketAddr,
    },
    /// The schema changed.
    Schema(SchemaChange),
}

impl Event {
    /// The kind to which clients subscribe for it.
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Topology { .. } => EventType::TopologyChange,
            Self::Status { .. } => EventType::StatusChange,
            Self::Schema(_) => EventType::SchemaChange,
        }
    }

    pub(crate) fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        wire::put_string(out, self.event_type().name());
        match self {
            Self::Topology { change, node } => {
                wire::put_string(out, enum_name(&TOPOLOGY_CHANGES, *change));
                wire::put_inet(out, *node);
            }
            Self::Status { up, node } => {
                wire::put_string(out, enum_name(&STATUSES, *up));
                wire::put_inet(out, *node);
            }
            Self::Schema(change) => change.encode(version, out),
        }
    }

    pub(crate) fn decode(
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        Ok(
            match EventType::from_name(&wire::string(reader)?, version)? {
                EventType::TopologyChange => {
                    let change = enum_value(&TOPOLOGY_CHANGES, &wire::string(reader)?, "Change")?;
                    Self::Topology {
                        change,
                        node: wire::inet(reader)?,
                    }
                }
                EventType::StatusChange => {
                    let up = enum_value(&STATUSES, &wire::string(reader)?, "Status")?;
                    Self::Status {
                        up,
                        node: wire::inet(reader)?,
                    }
                }
                EventType::SchemaChange => Self::Schema(SchemaChange::decode(reader)?),
                EventType::TraceComplete => {
                    return Err(ProtocolError::new(
                        "TRACE_COMPLETE events are not supported",
                    ));
                }
            },
        )
    }
}
