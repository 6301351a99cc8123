//! Whether bytes are a value of a type, with the words that Cassandra sends to clients
//! (`TypeSerializer.validate` of each type).

use crate::cql_type::{CqlType, UserType};
use crate::elements;
use crate::reader::Reader;
use crate::value::{ValueError, decode_duration};
use bytes::Bytes;

impl CqlType {
    /// Refuses bytes that are no value of the type.
    pub fn validate(&self, bytes: &Bytes) -> Result<(), ValueError> {
        let size = bytes.len();
        match self {
            Self::Blob | Self::VarInt | Self::Custom(_) => Ok(()),
            Self::Ascii => validate_ascii(bytes),
            Self::Text => std::str::from_utf8(bytes)
                .map(|_| ())
                .map_err(|_| ValueError::new("String didn't validate.")),
            Self::Boolean
            | Self::TinyInt
            | Self::SmallInt
            | Self::Int
            | Self::BigInt
            | Self::Counter
            | Self::Float
            | Self::Double
            | Self::Date
            | Self::Time
            | Self::Timestamp
            | Self::Uuid => self.validate_length(size),
            Self::Decimal => check(size == 0 || size >= 4, || {
                format!("Expected 0 or at least 4 bytes ({size})")
            }),
            Self::TimeUuid => validate_timeuuid(bytes),
            Self::Empty => check(size == 0, || {
                "EmptyType only accept empty values".to_owned()
            }),
            Self::Inet => check(matches!(size, 0 | 4 | 16), || {
                format!(
                    "Expected 4 or 16 byte inetaddress; got {}",
                    crate::literal::hex(bytes)
                )
            }),
            Self::Duration => validate_duration(bytes),
            Self::List { element, .. } => each(element, &elements::read_list(bytes)?),
            Self::Set { element, .. } => each(element, &elements::read_set(bytes)?),
            Self::Map { key, value, .. } => {
                elements::read_map(bytes)?.iter().try_for_each(|(k, v)| {
                    key.validate(k)?;
                    value.validate(v)
                })
            }
            Self::Tuple(types) => {
                let fields = elements::read_fields(bytes, types.len(), "tuple")?;
                types
                    .iter()
                    .zip(&fields)
                    .try_for_each(|(t, field)| field.as_ref().map_or(Ok(()), |f| t.validate(f)))
            }
            Self::Udt(user_type) => validate_udt(user_type, bytes),
            Self::Vector { element, dimension } => {
                check(size > 0, || "Invalid empty vector value".to_owned())?;
                each(element, &elements::read_vector(element, *dimension, bytes)?)
            }
        }
    }

    /// Types of which the length is all that can be wrong: the lengths allowed, and Cassandra's
    /// words for any other.
    fn validate_length(&self, size: usize) -> Result<(), ValueError> {
        let (allowed, expected): (&[usize], &str) = match self {
            Self::Boolean => (&[0, 1], "Expected 1 or 0 byte value"),
            Self::TinyInt => (&[1], "Expected 1 byte for a tinyint"),
            Self::SmallInt => (&[2], "Expected 2 bytes for a smallint"),
            Self::Int => (&[0, 4], "Expected 4 or 0 byte int"),
            Self::BigInt | Self::Counter => (&[0, 8], "Expected 8 or 0 byte long"),
            Self::Float => (&[0, 4], "Expected 4 or 0 byte value for a float"),
            Self::Double => (&[0, 8], "Expected 8 or 0 byte value for a double"),
            Self::Date => (&[4], "Expected 4 byte long for date"),
            Self::Time => (&[8], "Expected 8 byte long for time"),
            Self::Timestamp => (&[0, 8], "Expected 8 or 0 byte long for date"),
            Self::Uuid => (&[0, 16], "UUID should be 16 or 0 bytes"),
            _ => return Ok(()),
        };
        check(allowed.contains(&size), || format!("{expected} ({size})"))
    }

    /// Whether the empty value (no bytes) is a value of the type.
    pub fn allows_empty(&self) -> bool {
        !matches!(
            self,
            Self::TinyInt
                | Self::SmallInt
                | Self::Date
                | Self::Time
                | Self::Duration
                | Self::List { .. }
                | Self::Set { .. }
                | Self::Map { .. }
                | Self::Vector { .. }
        )
    }

    /// Whether the empty value, though allowed, stands for nothing (all but texts, blobs and tuples).
    pub fn is_empty_meaningless(&self) -> bool {
        self.allows_empty()
            && !matches!(
                self,
                Self::Ascii
                    | Self::Text
                    | Self::Blob
                    | Self::Custom(_)
                    | Self::Empty
                    | Self::Tuple(_)
                    | Self::Udt(_)
            )
    }
}

fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), ValueError> {
    if holds {
        Ok(())
    } else {
        Err(ValueError::new(message()))
    }
}

fn validate_ascii(bytes: &Bytes) -> Result<(), ValueError> {
    match bytes.iter().find(|b| **b > 127) {
        Some(byte) => Err(ValueError::new(format!(
            "Invalid byte for ascii: {}",
            byte.cast_signed()
        ))),
        None => Ok(()),
    }
}

fn validate_udt(user_type: &UserType, bytes: &Bytes) -> Result<(), ValueError> {
    let fields = elements::read_fields(bytes, user_type.fields.len(), "UDT")?;
    for (index, ((name, t), field)) in user_type.fields.iter().zip(&fields).enumerate() {
        if let Some(field) = field {
            t.validate(field).map_err(|error| {
                ValueError::new(format!(
                    "Failure validating the {index}th field {name}; {error}"
                ))
            })?;
        }
    }
    Ok(())
}

fn each(element: &CqlType, parts: &[Bytes]) -> Result<(), ValueError> {
    parts.iter().try_for_each(|part| element.validate(part))
}

fn validate_timeuuid(bytes: &[u8]) -> Result<(), ValueError> {
    match bytes.get(6) {
        None => check(bytes.is_empty(), || {
            format!("UUID should be 16 or 0 bytes ({})", bytes.len())
        }),
        Some(_) if bytes.len() != 16 => Err(ValueError::new(format!(
            "UUID should be 16 or 0 bytes ({})",
            bytes.len()
        ))),
        Some(byte) => check(byte & 0xf0 == 0x10, || {
            // Cassandra names the first half byte, not the version.
            format!("Invalid version for TimeUUID type: 0x{:x}", bytes[0] >> 4)
        }),
    }
}

fn validate_duration(bytes: &Bytes) -> Result<(), ValueError> {
    check(bytes.len() >= 3, || {
        format!("Expected at least 3 bytes for a duration ({})", bytes.len())
    })?;
    decode_duration(&mut Reader::new(bytes.clone())).map(|_| ())
}
