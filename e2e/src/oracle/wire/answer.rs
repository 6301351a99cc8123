//! Answers of the server, taken apart.

use anyhow::{Result, bail};
use std::fmt;

/// One answer as it came.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which request it answers.
    pub stream: i16,
    /// What it is.
    pub opcode: u8,
    /// Warnings of the server.
    pub warnings: Vec<String>,
    /// What follows the warnings.
    pub body: Vec<u8>,
}

/// What an answer says.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The statement failed.
    Error(ServerError),
    /// Done, nothing to tell.
    Void,
    /// Rows.
    Rows(Rows),
    /// USE was obeyed.
    SetKeyspace(String),
    /// A statement is prepared.
    Prepared(Box<Prepared>),
    /// The schema changed.
    SchemaChange(SchemaChange),
    /// Any other opcode.
    Other(u8),
}

/// An ERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Its code.
    pub code: i32,
    /// Its text.
    pub message: String,
    /// What follows, by code.
    pub extra: Vec<u8>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "error {:#06x} {}", self.code, self.message)?;
        if !self.extra.is_empty() {
            write!(out, " extra {}", hex(&self.extra))?;
        }
        Ok(())
    }
}

/// Rows of one page.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Their columns.
    pub metadata: Metadata,
    /// Cells by row; None is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// Columns of a result or of bound values.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The flags as sent.
    pub flags: i32,
    /// How many columns there are; `columns` is empty when the metadata was left out.
    pub count: usize,
    /// Where the next page begins.
    pub paging_state: Option<Vec<u8>>,
    /// Set when the metadata changed (v5).
    pub new_metadata_id: Option<Vec<u8>>,
    /// The columns.
    pub columns: Vec<ColumnSpec>,
}

/// A column of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Name.
    pub name: String,
    /// CQL type, spelled out from the option bytes.
    pub kind: String,
}

/// A PREPARED.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The statement's id.
    pub id: Vec<u8>,
    /// Id of the result's metadata (v5).
    pub result_metadata_id: Vec<u8>,
    /// Which bound values make the partition key.
    pub partition_key: Vec<u16>,
    /// Bound values.
    pub bound: Metadata,
    /// Result columns.
    pub result: Metadata,
}

/// A SCHEMA_CHANGE.
#[derive(Clone, Debug)]
pub struct SchemaChange {
    /// CREATED, UPDATED or DROPPED.
    pub change: String,
    /// KEYSPACE, TABLE, …
    pub target: String,
    /// Keyspace, then the name, then argument types.
    pub names: Vec<String>,
}

impl Answer {
    /// From an envelope.
    pub(super) fn parse(envelope: &[u8]) -> Result<Self> {
        let mut reader = Reader { rest: envelope };
        let version = reader.byte()?;
        if version & 0x80 == 0 {
            bail!("the server sent a request");
        }
        let flags = reader.byte()?;
        let stream = i16::from_be_bytes(reader.take(2)?.try_into()?);
        let opcode = reader.byte()?;
        reader.take(4)?;
        if flags & 0x01 != 0 {
            bail!("the answer is compressed though nobody asked for that");
        }
        if flags & 0x02 != 0 {
            reader.take(16)?;
        }
        let warnings = if flags & 0x08 != 0 {
            reader.string_list()?
        } else {
            Vec::new()
        };
        if flags & 0x04 != 0 {
            for _ in 0..reader.short()? {
                reader.string()?;
                reader.bytes()?;
            }
        }
        Ok(Self {
            stream,
            opcode,
            warnings,
            body: reader.rest.to_vec(),
        })
    }

    /// Take it apart; trailing bytes are an error.
    pub fn outcome(&self) -> Result<Outcome> {
        self.outcome_in(4)
    }

    /// The same, in a given protocol version: PREPARED differs in v5.
    pub fn outcome_in(&self, version: u8) -> Result<Outcome> {
        let mut reader = Reader { rest: &self.body };
        let outcome = match self.opcode {
            0x00 => {
                let (code, message) = (reader.int()?, reader.string()?);
                let extra = std::mem::take(&mut reader.rest).to_vec();
                Outcome::Error(ServerError {
                    code,
                    message,
                    extra,
                })
            }
            0x08 => match reader.int()? {
                1 => Outcome::Void,
                2 => Outcome::Rows(reader.rows()?),
                3 => Outcome::SetKeyspace(reader.string()?),
                4 => Outcome::Prepared(Box::new(reader.prepared(version)?)),
                5 => Outcome::SchemaChange(reader.schema_change()?),
                kind => bail!("RESULT of the unknown kind {kind}"),
            },
            opcode => return Ok(Outcome::Other(opcode)),
        };
        if !reader.rest.is_empty() {
            bail!(
                "{} bytes follow the answer: {}",
                reader.rest.len(),
                hex(reader.rest)
            );
        }
        Ok(outcome)
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        // a string takes all that is written
        write!(out, "{byte:02x}").ok();
        out
    })
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((front, rest)) = self.rest.split_at_checked(count) else {
            bail!(
                "the answer ends early: {count} bytes wanted, {} left",
                self.rest.len()
            );
        };
        self.rest = rest;
        Ok(front)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn short(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.take(2)?.try_into()?))
    }

    fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into()?))
    }

    fn count(&mut self) -> Result<usize> {
        let count = self.int()?;
        let Ok(count) = usize::try_from(count) else {
            bail!("a negative count {count}")
        };
        Ok(count)
    }

    fn string(&mut self) -> Result<String> {
        let length = self.short()?;
        Ok(String::from_utf8(self.take(length.into())?.to_vec())?)
    }

    fn string_list(&mut self) -> Result<Vec<String>> {
        (0..self.short()?).map(|_| self.string()).collect()
    }

    fn bytes(&mut self) -> Result<Option<Vec<u8>>> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(length) => Ok(Some(self.take(length)?.to_vec())),
            Err(_) if length == -1 => Ok(None),
            Err(_) => bail!("a value of length {length}"),
        }
    }

    fn short_bytes(&mut self) -> Result<Vec<u8>> {
        let length = self.short()?;
        Ok(self.take(length.into())?.to_vec())
    }

    fn rows(&mut self) -> Result<Rows> {
        let metadata = self.metadata()?;
        let count = self.count()?;
        let mut rows = Vec::new();
        for _ in 0..count {
            rows.push(
                (0..metadata.count)
                    .map(|_| self.bytes())
                    .collect::<Result<_>>()?,
            );
        }
        Ok(Rows { metadata, rows })
    }

    fn metadata(&mut self) -> Result<Metadata> {
        let flags = self.int()?;
        let count = self.count()?;
        self.metadata_after(flags, count)
    }

    fn metadata_after(&mut self, flags: i32, count: usize) -> Result<Metadata> {
        let mut metadata = Metadata {
            flags,
            count,
            ..Metadata::default()
        };
        if flags & 0x02 != 0 {
            metadata.paging_state = self.bytes()?;
        }
        if flags & 0x08 != 0 {
            metadata.new_metadata_id = Some(self.short_bytes()?);
        }
        if flags & 0x04 == 0 {
            self.columns(&mut metadata)?;
        }
        Ok(metadata)
    }

    fn columns(&mut self, metadata: &mut Metadata) -> Result<()> {
        let global = if metadata.flags & 0x01 != 0 {
            Some((self.string()?, self.string()?))
        } else {
            None
        };
        for _ in 0..metadata.count {
            let (keyspace, table) = match &global {
                Some(names) => names.clone(),
                None => (self.string()?, self.string()?),
            };
            metadata.columns.push(ColumnSpec {
                keyspace,
                table,
                name: self.string()?,
                kind: self.option()?,
            });
        }
        Ok(())
    }

    /// A type as CQL writes it.
    fn option(&mut self) -> Result<String> {
        let id = self.short()?;
        Ok(match id {
            0x00 => format!("'{}'", self.string()?),
            0x20 => format!("list<{}>", self.option()?),
            0x21 => format!("map<{}, {}>", self.option()?, self.option()?),
            0x22 => format!("set<{}>", self.option()?),
            0x30 => {
                let name = format!("{}.{}", self.string()?, self.string()?);
                let fields: Vec<String> = (0..self.short()?)
                    .map(|_| Ok(format!("{} {}", self.string()?, self.option()?)))
                    .collect::<Result<_>>()?;
                format!("{name}({})", fields.join(", "))
            }
            0x31 => {
                let parts: Vec<String> = (0..self.short()?)
                    .map(|_| self.option())
                    .collect::<Result<_>>()?;
                format!("tuple<{}>", parts.join(", "))
            }
            other => type_name(other).map_or_else(|| format!("type {other:#06x}"), str::to_owned),
        })
    }

    fn prepared(&mut self, version: u8) -> Result<Prepared> {
        let id = self.short_bytes()?;
        let result_metadata_id = if version >= 5 {
            self.short_bytes()?
        } else {
            Vec::new()
        };
        let (flags, count, keys) = (self.int()?, self.count()?, self.count()?);
        let partition_key = (0..keys).map(|_| self.short()).collect::<Result<_>>()?;
        let bound = self.metadata_after(flags, count)?;
        Ok(Prepared {
            id,
            result_metadata_id,
            partition_key,
            bound,
            result: self.metadata()?,
        })
    }

    fn schema_change(&mut self) -> Result<SchemaChange> {
        let (change, target) = (self.string()?, self.string()?);
        let mut names = vec![self.string()?];
        if target != "KEYSPACE" {
            names.push(self.string()?);
        }
        if target == "FUNCTION" || target == "AGGREGATE" {
            names.extend(self.string_list()?);
        }
        Ok(SchemaChange {
            change,
            target,
            names,
        })
    }
}

/// The name of a scalar type by its number in the protocol.
pub fn type_name(id: u16) -> Option<&'static str> {
    Some(match id {
        0x01 => "ascii",
        0x02 => "bigint",
        0x03 => "blob",
        0x04 => "boolean",
        0x05 => "counter",
        0x06 => "decimal",
        0x07 => "double",
        0x08 => "float",
        0x09 => "int",
        0x0B => "timestamp",
        0x0C => "uuid",
        0x0D => "varchar",
        0x0E => "varint",
        0x0F => "timeuuid",
        0x10 => "inet",
        0x11 => "date",
        0x12 => "time",
        0x13 => "smallint",
        0x14 => "tinyint",
        0x15 => "duration",
        _ => return None,
    })
}
