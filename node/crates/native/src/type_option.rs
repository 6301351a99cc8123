//! Types as options: a `u16` id and what the id needs. Types without an id in a version go as custom
//! types by their Java class, as Cassandra does: vectors always, durations before version 5, dates,
//! times, small and tiny integers before version 4.

use crate::error::ProtocolError;
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::{BufMut, BytesMut};
use helenus_types::{CqlType, Reader, UserType};
use std::sync::Arc;

const CUSTOM: u16 = 0x0000;
const LIST: u16 = 0x0020;
const MAP: u16 = 0x0021;
const SET: u16 = 0x0022;
const UDT: u16 = 0x0030;
const TUPLE: u16 = 0x0031;
/// How deep types may nest in a message.
const DEPTH_LIMIT: usize = 64;

/// Simple types with their ids and first versions.
const SIMPLE: [(CqlType, u16, ProtocolVersion); 20] = [
    (CqlType::Ascii, 0x0001, ProtocolVersion::V3),
    (CqlType::BigInt, 0x0002, ProtocolVersion::V3),
    (CqlType::Blob, 0x0003, ProtocolVersion::V3),
    (CqlType::Boolean, 0x0004, ProtocolVersion::V3),
    (CqlType::Counter, 0x0005, ProtocolVersion::V3),
    (CqlType::Decimal, 0x0006, ProtocolVersion::V3),
    (CqlType::Double, 0x0007, ProtocolVersion::V3),
    (CqlType::Float, 0x0008, ProtocolVersion::V3),
    (CqlType::Int, 0x0009, ProtocolVersion::V3),
    (CqlType::Timestamp, 0x000b, ProtocolVersion::V3),
    (CqlType::Uuid, 0x000c, ProtocolVersion::V3),
    (CqlType::Text, 0x000d, ProtocolVersion::V3),
    (CqlType::VarInt, 0x000e, ProtocolVersion::V3),
    (CqlType::TimeUuid, 0x000f, ProtocolVersion::V3),
    (CqlType::Inet, 0x0010, ProtocolVersion::V3),
    (CqlType::Date, 0x0011, ProtocolVersion::V4),
    (CqlType::Time, 0x0012, ProtocolVersion::V4),
    (CqlType::SmallInt, 0x0013, ProtocolVersion::V4),
    (CqlType::TinyInt, 0x0014, ProtocolVersion::V4),
    (CqlType::Duration, 0x0015, ProtocolVersion::V5),
];

/// Writes a type.
pub fn encode(cql_type: &CqlType, version: ProtocolVersion, out: &mut BytesMut) {
    match cql_type {
        CqlType::List { element, .. } => {
            out.put_u16(LIST);
            encode(element, version, out);
        }
        CqlType::Set { element, .. } => {
            out.put_u16(SET);
            encode(element, version, out);
        }
        CqlType::Map { key, value, .. } => {
            out.put_u16(MAP);
            encode(key, version, out);
            encode(value, version, out);
        }
        CqlType::Tuple(elements) => {
            out.put_u16(TUPLE);
            wire::put_list(out, elements, |out, element| encode(element, version, out));
        }
        CqlType::Udt(user_type) => {
            out.put_u16(UDT);
            wire::put_string(out, &user_type.keyspace);
            wire::put_string(out, &user_type.name);
            wire::put_list(out, &user_type.fields, |out, (name, field)| {
                wire::put_string(out, name);
                encode(field, version, out);
            });
        }
        simple => {
            let known = SIMPLE
                .iter()
                .find(|entry| entry.0 == *simple && version >= entry.2);
            if let Some(entry) = known {
                out.put_u16(entry.1);
            } else {
                out.put_u16(CUSTOM);
                wire::put_string(out, &simple.java_name());
            }
        }
    }
}

/// Reads a type. What the notation does not say is taken as not frozen outside and frozen inside.
pub fn decode(reader: &mut Reader) -> Result<CqlType, ProtocolError> {
    decode_nested(reader, DEPTH_LIMIT)
}

fn decode_nested(reader: &mut Reader, depth: usize) -> Result<CqlType, ProtocolError> {
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| ProtocolError::new("Types nest too deep"))?;
    let inner = |reader: &mut Reader| decode_nested(reader, depth).map(|t| Arc::new(t.freeze()));
    let id = reader.u16()?;
    match id {
        CUSTOM => {
            let class = wire::string(reader)?;
            CqlType::from_java_name(&class).map_err(|error| ProtocolError::new(error.to_string()))
        }
        // TEXT, an id that only old clients send.
        0x000a => Ok(CqlType::Text),
        LIST => Ok(CqlType::List {
            element: inner(reader)?,
            frozen: false,
        }),
        SET => Ok(CqlType::Set {
            element: inner(reader)?,
            frozen: false,
        }),
        MAP => Ok(CqlType::Map {
            key: inner(reader)?,
            value: inner(reader)?,
            frozen: false,
        }),
        TUPLE => {
            let length = usize::from(reader.u16()?);
            let elements: Result<Vec<_>, _> = (0..wire::count(reader, length, 2)?)
                .map(|_| Ok(decode_nested(reader, depth)?.freeze()))
                .collect();
            elements.map(|elements| CqlType::Tuple(elements.into()))
        }
        UDT => {
            let keyspace = wire::string(reader)?;
            let name = wire::string(reader)?;
            let length = usize::from(reader.u16()?);
            let fields: Result<Vec<_>, ProtocolError> = (0..wire::count(reader, length, 4)?)
                .map(|_| Ok((wire::string(reader)?, decode_nested(reader, depth)?)))
                .collect();
            Ok(CqlType::Udt(Arc::new(UserType {
                keyspace,
                name,
                fields: fields?,
                frozen: false,
            })))
        }
        _ => SIMPLE
            .iter()
            .find(|entry| entry.1 == id)
            .map(|entry| entry.0.clone())
            .ok_or_else(|| ProtocolError::new(format!("Unknown option id {id}"))),
    }
}
