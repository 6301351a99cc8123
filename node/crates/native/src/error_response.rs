//! ERROR: every code with its fields, and what older versions get instead of codes they lack.

use crate::error::ProtocolError;
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::{ConsistencyLevel, Reader};
use std::net::IpAddr;

/// What a write was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteType {
    /// One partition.
    Simple,
    /// A logged batch whose log was written.
    Batch,
    /// An unlogged batch of several partitions.
    UnloggedBatch,
    /// A counter update.
    Counter,
    /// The log of a logged batch.
    BatchLog,
    /// A conditional update.
    Cas,
    /// A view's update.
    View,
    /// A write to the change log.
    Cdc,
}

impl WriteType {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Simple, "SIMPLE"),
        (Self::Batch, "BATCH"),
        (Self::UnloggedBatch, "UNLOGGED_BATCH"),
        (Self::Counter, "COUNTER"),
        (Self::BatchLog, "BATCH_LOG"),
        (Self::Cas, "CAS"),
        (Self::View, "VIEW"),
        (Self::Cdc, "CDC"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|entry| entry.0 == self)
            .map_or("", |entry| entry.1)
    }

    fn decode(reader: &mut Reader) -> Result<Self, ProtocolError> {
        let name = wire::string(reader)?;
        let found = Self::ALL.iter().find(|entry| entry.1 == name);
        found
            .map(|entry| entry.0)
            .ok_or_else(|| ProtocolError::new(format!("Invalid value '{name}' for WriteType")))
    }
}

/// Replicas that failed, with Cassandra's reason codes (0 unknown, 1 too many tombstones, 2 timeout,
/// 3 incompatible schema, 4 read too large, 5 node down, 6 index not available).
pub type FailureReasons = Vec<(IpAddr, u16)>;

/// An error as answered to a client. `received` and `block_for` count replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "fields are the protocol's own; message is the text for people"
)]
pub enum ErrorResponse {
    /// 0x0000: something unexpected in the server.
    Server { message: String },
    /// 0x000A: the request is not the protocol.
    Protocol { message: String },
    /// 0x0100: wrong name or password.
    BadCredentials { message: String },
    /// 0x1000: too few replicas are alive.
    Unavailable {
        message: String,
        consistency: ConsistencyLevel,
        required: i32,
        alive: i32,
    },
    /// 0x1001: the coordinator is overloaded.
    Overloaded { message: String },
    /// 0x1002: the coordinator is bootstrapping.
    Bootstrapping { message: String },
    /// 0x1003: a truncation failed.
    Truncate { message: String },
    /// 0x1100: replicas did not acknowledge a write in time. `contentions` is for conditional updates (version 5).
    WriteTimeout {
        message: String,
        consistency: ConsistencyLevel,
        received: i32,
        block_for: i32,
        write_type: WriteType,
        contentions: Option<u16>,
    },
    /// 0x1200: replicas did not answer a read in time.
    ReadTimeout {
        message: String,
        consistency: ConsistencyLevel,
        received: i32,
        block_for: i32,
        data_present: bool,
    },
    /// 0x1300: replicas failed a read.
    ReadFailure {
        message: String,
        consistency: ConsistencyLevel,
        received: i32,
        block_for: i32,
        failures: FailureReasons,
        data_present: bool,
    },
    /// 0x1400: a user-defined function failed.
    FunctionFailure {
        message: String,
        keyspace: String,
        function: String,
        argument_types: Vec<String>,
    },
    /// 0x1500: replicas failed a write.
    WriteFailure {
        message: String,
        consistency: ConsistencyLevel,
        received: i32,
        block_for: i32,
        failures: FailureReasons,
        write_type: WriteType,
    },
    /// 0x1600: the change log is full.
    CdcWriteFailure { message: String },
    /// 0x1700: whether a conditional update was applied is not known (version 5).
    CasWriteUnknown {
        message: String,
        consistency: ConsistencyLevel,
        received: i32,
        block_for: i32,
    },
    /// 0x2000: the statement is not CQL.
    Syntax { message: String },
    /// 0x2100: the role may not do this.
    Unauthorized { message: String },
    /// 0x2200: the statement is CQL but makes no sense here.
    Invalid { message: String },
    /// 0x2300: a setting in the statement is impossible.
    Config { message: String },
    /// 0x2400: what was to be created exists; `table` is empty for a keyspace.
    AlreadyExists {
        message: String,
        keyspace: String,
        table: String,
    },
    /// 0x2500: the prepared statement is not known here.
    Unprepared { message: String, id: Bytes },
}

/// What every error has: its code and message.
macro_rules! codes {
    ($($variant:ident = $code:literal),+ $(,)?) => {
        /// The error's code.
        pub fn code(&self) -> u32 {
            match self { $(Self::$variant { .. } => $code,)+ }
        }

        /// The text for people.
        pub fn message(&self) -> &str {
            match self { $(Self::$variant { message, .. } => message,)+ }
        }
    };
}

impl ErrorResponse {
    codes! {
        Server = 0x0000, Protocol = 0x000a, BadCredentials = 0x0100, Unavailable = 0x1000, Overloaded = 0x1001,
        Bootstrapping = 0x1002, Truncate = 0x1003, WriteTimeout = 0x1100, ReadTimeout = 0x1200, ReadFailure = 0x1300,
        FunctionFailure = 0x1400, WriteFailure = 0x1500, CdcWriteFailure = 0x1600, CasWriteUnknown = 0x1700,
        Syntax = 0x2000, Unauthorized = 0x2100, Invalid = 0x2200, Config = 0x2300, AlreadyExists = 0x2400,
        Unprepared = 0x2500,
    }

    /// The error that `version` has for this one.
    fn for_version(&self, version: ProtocolVersion) -> Option<Self> {
        let message = self.message().to_owned();
        match self {
            Self::ReadFailure {
                consistency,
                received,
                block_for,
                data_present,
                ..
            } if version < ProtocolVersion::V4 => {
                let (consistency, received, block_for) = (*consistency, *received, *block_for);
                Some(Self::ReadTimeout {
                    message,
                    consistency,
                    received,
                    block_for,
                    data_present: *data_present,
                })
            }
            Self::WriteFailure {
                consistency,
                received,
                block_for,
                write_type,
                ..
            } if version < ProtocolVersion::V4 => {
                let (consistency, received, block_for, write_type) =
                    (*consistency, *received, *block_for, *write_type);
                Some(Self::WriteTimeout {
                    message,
                    consistency,
                    received,
                    block_for,
                    write_type,
                    contentions: None,
                })
            }
            Self::FunctionFailure { .. } | Self::CdcWriteFailure { .. }
                if version < ProtocolVersion::V4 =>
            {
                Some(Self::Invalid { message })
            }
            Self::CasWriteUnknown {
                consistency,
                received,
                block_for,
                ..
            } if version < ProtocolVersion::V5 => Some(Self::WriteTimeout {
                message,
                consistency: *consistency,
                received: *received,
                block_for: *block_for,
                write_type: WriteType::Cas,
                contentions: None,
            }),
            _ => None,
        }
    }

    /// Writes the body.
    pub(crate) fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        if let Some(other) = self.for_version(version) {
            return other.encode(version, out);
        }
        let newest = version >= ProtocolVersion::V5;
        out.put_u32(self.code());
        wire::put_string(out, self.message());
        if let Some((consistency, first, second)) = self.counts() {
            wire::put_consistency(out, consistency);
            out.put_i32(first);
            out.put_i32(second);
        }
        match self {
            Self::WriteTimeout {
                write_type,
                contentions,
                ..
            } => {
                wire::put_string(out, write_type.name());
                if newest && *write_type == WriteType::Cas {
                    out.put_u16(contentions.unwrap_or(0));
                }
            }
            Self::ReadTimeout { data_present, .. } => out.put_u8(u8::from(*data_present)),
            Self::ReadFailure {
                failures,
                data_present,
                ..
            } => {
                put_failures(out, failures, newest);
                out.put_u8(u8::from(*data_present));
            }
            Self::WriteFailure {
                failures,
                write_type,
                ..
            } => {
                put_failures(out, failures, newest);
                wire::put_string(out, write_type.name());
            }
            Self::FunctionFailure {
                keyspace,
                function,
                argument_types,
                ..
            } => {
                wire::put_string(out, keyspace);
                wire::put_string(out, function);
                wire::put_string_list(out, argument_types);
            }
            Self::AlreadyExists {
                keyspace, table, ..
            } => {
                wire::put_string(out, keyspace);
                wire::put_string(out, table);
            }
            Self::Unprepared { id, .. } => wire::put_short_bytes(out, id),
            _ => {}
        }
    }

    /// What opens the details of every error about replicas: the consistency level, then the
    /// replicas required and alive, or the answers received and waited for.
    fn counts(&self) -> Option<(ConsistencyLevel, i32, i32)> {
        match *self {
            Self::Unavailable {
                consistency,
                required,
                alive,
                ..
            } => Some((consistency, required, alive)),
            Self::WriteTimeout {
                consistency,
                received,
                block_for,
                ..
            }
            | Self::ReadTimeout {
                consistency,
                received,
                block_for,
                ..
            }
            | Self::ReadFailure {
                consistency,
                received,
                block_for,
                ..
            }
            | Self::WriteFailure {
                consistency,
                received,
                block_for,
                ..
            }
            | Self::CasWriteUnknown {
                consistency,
                received,
                block_for,
                ..
            } => Some((consistency, received, block_for)),
            _ => None,
        }
    }

    /// Reads the body (for clients).
    pub(crate) fn decode(
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        let code = reader.u32()?;
        let message = wire::string(reader)?;
        Ok(match code {
            0x0000 => Self::Server { message },
            0x000a => Self::Protocol { message },
            0x0100 => Self::BadCredentials { message },
            0x1001 => Self::Overloaded { message },
            0x1002 => Self::Bootstrapping { message },
            0x1003 => Self::Truncate { message },
            0x1600 => Self::CdcWriteFailure { message },
            0x2000 => Self::Syntax { message },
            0x2100 => Self::Unauthorized { message },
            0x2200 => Self::Invalid { message },
            0x2300 => Self::Config { message },
            0x2400 => Self::AlreadyExists {
                message,
                keyspace: wire::string(reader)?,
                table: wire::string(reader)?,
            },
            0x2500 => Self::Unprepared {
                message,
                id: wire::short_bytes(reader)?,
            },
            0x1400 => Self::FunctionFailure {
                message,
                keyspace: wire::string(reader)?,
                function: wire::string(reader)?,
                argument_types: wire::string_list(reader)?,
            },
            0x1000 | 0x1100 | 0x1200 | 0x1300 | 0x1500 | 0x1700 => {
                Self::decode_counts(code, message, reader, version)?
            }
            other => return Err(ProtocolError::new(format!("Unknown error code {other}"))),
        })
    }

    fn decode_counts(
        code: u32,
        message: String,
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        let newest = version >= ProtocolVersion::V5;
        let consistency = wire::consistency(reader)?;
        let (received, block_for) = (reader.i32()?, reader.i32()?);
        Ok(match code {
            0x1000 => Self::Unavailable {
                message,
                consistency,
                required: received,
                alive: block_for,
            },
            0x1100 => {
                let write_type = WriteType::decode(reader)?;
                let contended = newest && write_type == WriteType::Cas && !reader.is_empty();
                let contentions = contended.then(|| reader.u16()).transpose()?;
                Self::WriteTimeout {
                    message,
                    consistency,
                    received,
                    block_for,
                    write_type,
                    contentions,
                }
            }
            0x1200 => Self::ReadTimeout {
                message,
                consistency,
                received,
                block_for,
                data_present: reader.u8()? != 0,
            },
            0x1300 => {
                let failures = failures(reader, newest)?;
                let data_present = reader.u8()? != 0;
                Self::ReadFailure {
                    message,
                    consistency,
                    received,
                    block_for,
                    failures,
                    data_present,
                }
            }
            0x1500 => {
                let failures = failures(reader, newest)?;
                let write_type = WriteType::decode(reader)?;
                Self::WriteFailure {
                    message,
                    consistency,
                    received,
                    block_for,
                    failures,
                    write_type,
                }
            }
            _ => Self::CasWriteUnknown {
                message,
                consistency,
                received,
                block_for,
            },
        })
    }
}

/// The count of failures, which in version 5 is that of the reasons that follow.
fn put_failures(out: &mut BytesMut, failures: &FailureReasons, newest: bool) {
    wire::put_length(out, failures.len());
    if newest {
        for (address, reason) in failures {
            wire::put_inet_address(out, *address);
            out.put_u16(*reason);
        }
    }
}

/// Failures with their reasons; older versions only count them, so that addresses are unspecified.
fn failures(reader: &mut Reader, newest: bool) -> Result<FailureReasons, ProtocolError> {
    let length = usize::try_from(reader.i32()?)
        .map_err(|_| ProtocolError::new("Negative count of failures"))?;
    if !newest {
        // No cluster has more replicas.
        let unknown = (IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
        return Ok(vec![unknown; length.min(usize::from(u16::MAX))]);
    }
    (0..wire::count(reader, length, 7)?)
        .map(|_| Ok((wire::inet_address(reader)?, reader.u16()?)))
        .collect()
}
