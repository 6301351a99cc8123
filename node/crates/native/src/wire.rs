//! The primitive notations of bodies: string, long string, bytes, short bytes, value, inet, and
//! their lists and maps.

use crate::error::ProtocolError;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::{ConsistencyLevel, Reader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

type Result<T> = std::result::Result<T, ProtocolError>;

fn utf8(bytes: &Bytes, prefix: usize) -> Result<String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| {
        ProtocolError::new(format!(
            "Cannot decode string as UTF8: a string preceded by its {prefix} bytes length"
        ))
    })
}

fn short_string(prefix: usize) -> ProtocolError {
    ProtocolError::new(format!(
        "Not enough bytes to read an UTF8 serialized string preceded by its {prefix} bytes length"
    ))
}

/// A string behind a `u16` length.
pub(crate) fn string(reader: &mut Reader) -> Result<String> {
    let bytes = reader.short_bytes().map_err(|_| short_string(2))?;
    utf8(&bytes, 2)
}

/// A string behind an `i32` length.
pub(crate) fn long_string(reader: &mut Reader) -> Result<String> {
    let length = reader.i32().map_err(|_| short_string(4))?;
    let length = usize::try_from(length).map_err(|_| short_string(4))?;
    let bytes = reader.bytes(length).map_err(|_| short_string(4))?;
    utf8(&bytes, 4)
}

/// Bytes behind a `u16` length.
pub(crate) fn short_bytes(reader: &mut Reader) -> Result<Bytes> {
    reader.short_bytes().map_err(|_| {
        ProtocolError::new("Not enough bytes to read a byte array preceded by its 2 bytes length")
    })
}

/// Bytes behind an `i32` length; negative is null.
pub(crate) fn bytes(reader: &mut Reader) -> Result<Option<Bytes>> {
    match usize::try_from(reader.i32()?) {
        Ok(length) => Ok(Some(reader.bytes(length)?)),
        Err(_) => Ok(None),
    }
}

/// A count of things that take at least `least` bytes each, refused when the rest cannot hold them.
pub(crate) fn count(reader: &Reader, count: usize, least: usize) -> Result<usize> {
    if count.saturating_mul(least) > reader.remaining() {
        return Err(ProtocolError::new(
            "Not enough bytes in message for the count of its parts",
        ));
    }
    Ok(count)
}

/// Strings behind a `u16` count.
pub(crate) fn string_list(reader: &mut Reader) -> Result<Vec<String>> {
    let length = usize::from(reader.u16()?);
    (0..count(reader, length, 2)?)
        .map(|_| string(reader))
        .collect()
}

/// Pairs of strings behind a `u16` count.
pub(crate) fn string_map(reader: &mut Reader) -> Result<Vec<(String, String)>> {
    let length = usize::from(reader.u16()?);
    (0..count(reader, length, 4)?)
        .map(|_| Ok((string(reader)?, string(reader)?)))
        .collect()
}

/// Strings with lists of strings behind a `u16` count.
pub(crate) fn string_multimap(reader: &mut Reader) -> Result<Vec<(String, Vec<String>)>> {
    let length = usize::from(reader.u16()?);
    (0..count(reader, length, 4)?)
        .map(|_| Ok((string(reader)?, string_list(reader)?)))
        .collect()
}

/// Strings with bytes behind a `u16` count.
pub(crate) fn bytes_map(reader: &mut Reader) -> Result<Vec<(String, Option<Bytes>)>> {
    let length = usize::from(reader.u16()?);
    (0..count(reader, length, 6)?)
        .map(|_| Ok((string(reader)?, bytes(reader)?)))
        .collect()
}

/// A consistency level's code.
pub(crate) fn consistency(reader: &mut Reader) -> Result<ConsistencyLevel> {
    let code = reader.u16()?;
    ConsistencyLevel::from_code(code)
        .ok_or_else(|| ProtocolError::new(format!("Unknown code {code} for a consistency level")))
}

/// An address behind its length in a byte.
pub(crate) fn inet_address(reader: &mut Reader) -> Result<IpAddr> {
    match reader.u8()? {
        4 => Ok(IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?))),
        16 => Ok(IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?))),
        _ => Err(ProtocolError::new(
            "Invalid IP address while deserializing inet address",
        )),
    }
}

/// An address and a port.
pub(crate) fn inet(reader: &mut Reader) -> Result<SocketAddr> {
    let address = inet_address(reader)?;
    let port = reader.i32()?;
    let port = u16::try_from(port)
        .map_err(|_| ProtocolError::new(format!("Invalid port {port} in an inet address")))?;
    Ok(SocketAddr::new(address, port))
}

/// A length or count as `u16`, at most 65,535.
pub(crate) fn put_short_length(out: &mut BytesMut, length: usize) {
    out.put_u16(u16::try_from(length).unwrap_or(u16::MAX));
}

/// A length as `i32`. Everything written was built in memory under far smaller limits.
pub(crate) fn put_length(out: &mut BytesMut, length: usize) {
    out.put_i32(i32::try_from(length).unwrap_or(i32::MAX));
}

/// Writes a string, cut at the last character that ends within 65,535 bytes.
pub(crate) fn put_string(out: &mut BytesMut, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    put_short_length(out, text.len());
    out.put_slice(text.as_bytes());
}

pub(crate) fn put_long_string(out: &mut BytesMut, text: &str) {
    put_length(out, text.len());
    out.put_slice(text.as_bytes());
}

/// Writes at most 65,535 bytes.
pub(crate) fn put_short_bytes(out: &mut BytesMut, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    put_short_length(out, bytes.len());
    out.put_slice(bytes);
}

pub(crate) fn put_bytes(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => out.put_i32(-1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.put_slice(bytes);
        }
    }
}

/// Writes a `u16` count and as many items.
pub(crate) fn put_list<T>(out: &mut BytesMut, items: &[T], mut put: impl FnMut(&mut BytesMut, &T)) {
    let items = &items[..items.len().min(usize::from(u16::MAX))];
    put_short_length(out, items.len());
    for item in items {
        put(out, item);
    }
}

pub(crate) fn put_string_list(out: &mut BytesMut, items: &[String]) {
    put_list(out, items, |out, item| put_string(out, item));
}

pub(crate) fn put_bytes_map(out: &mut BytesMut, entries: &[(String, Option<Bytes>)]) {
    put_list(out, entries, |out, (name, value)| {
        put_string(out, name);
        put_bytes(out, value.as_deref());
    });
}

pub(crate) fn put_consistency(out: &mut BytesMut, level: ConsistencyLevel) {
    out.put_u16(level.code());
}

pub(crate) fn put_inet_address(out: &mut BytesMut, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.put_u8(4);
            out.put_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.put_u8(16);
            out.put_slice(&v6.octets());
        }
    }
}

pub(crate) fn put_inet(out: &mut BytesMut, address: SocketAddr) {
    put_inet_address(out, address.ip());
    out.put_i32(i32::from(address.port()));
}
