//! Small values that many messages share: addresses, Java's modified UTF-8, UUIDs, counts, tokens.

use crate::error::{DecodeError, EncodeError};
use bytes::BufMut;
use helenus_types::{Endpoint, Reader, Token};
use std::net::{IpAddr, SocketAddr};
use uuid::Uuid;

/// Writes an address and port (`InetAddressAndPort`): size, address bytes, port.
pub fn write_endpoint(out: &mut impl BufMut, endpoint: &Endpoint) {
    match endpoint.address() {
        IpAddr::V4(address) => {
            out.put_u8(6);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_u8(18);
            out.put_slice(&address.octets());
        }
    }
    out.put_u16(endpoint.port());
}

/// Reads what [`write_endpoint`] writes. The pre-4.0 forms without a port are refused.
pub fn read_endpoint(reader: &mut Reader) -> Result<Endpoint, DecodeError> {
    let address = match reader.u8()? {
        6 => IpAddr::from(reader.array::<4>()?),
        18 => IpAddr::from(reader.array::<16>()?),
        size => return Err(DecodeError::invalid("size of an address", size)),
    };
    Ok(Endpoint(SocketAddr::new(address, reader.u16()?)))
}

/// Writes a text as Java's `writeUTF`: a 16-bit length, then modified UTF-8 (NUL is two bytes,
/// characters above U+FFFF are surrogate pairs of three bytes each).
pub fn write_utf(out: &mut impl BufMut, text: &str) -> Result<(), EncodeError> {
    let mut encoded = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        let [high, low] = unit.to_be_bytes();
        match unit {
            0x0001..=0x007f => encoded.push(low),
            0 | 0x0080..=0x07ff => {
                encoded.push(0xc0 | (high << 2) | (low >> 6));
                encoded.push(0x80 | (low & 0x3f));
            }
            _ => {
                encoded.push(0xe0 | (high >> 4));
                encoded.push(0x80 | ((high & 0x0f) << 2) | (low >> 6));
                encoded.push(0x80 | (low & 0x3f));
            }
        }
    }
    let length =
        u16::try_from(encoded.len()).map_err(|_| EncodeError::TextTooLong(encoded.len()))?;
    out.put_u16(length);
    out.put_slice(&encoded);
    Ok(())
}

/// Reads what [`write_utf`] writes.
pub fn read_utf(reader: &mut Reader) -> Result<String, DecodeError> {
    let bytes = reader.short_bytes()?;
    if bytes.is_ascii() && !bytes.contains(&0) {
        return Ok(bytes.iter().map(|b| char::from(*b)).collect());
    }
    let bad = || DecodeError::invalid("modified UTF-8", format!("{bytes:?}"));
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().map(|b| u16::from(*b));
    while let Some(first) = rest.next() {
        let mut more = || {
            rest.next()
                .filter(|b| b & 0xc0 == 0x80)
                .map(|b| b & 0x3f)
                .ok_or_else(bad)
        };
        units.push(match first {
            0x00..=0x7f => first,
            0xc0..=0xdf => ((first & 0x1f) << 6) | more()?,
            0xe0..=0xef => ((first & 0x0f) << 12) | (more()? << 6) | more()?,
            _ => return Err(bad()),
        });
    }
    String::from_utf16(&units).map_err(|_| bad())
}

/// Writes a UUID as sixteen bytes.
pub fn write_uuid(out: &mut impl BufMut, id: Uuid) {
    out.put_slice(id.as_bytes());
}

/// Reads a UUID.
pub fn read_uuid(reader: &mut Reader) -> Result<Uuid, DecodeError> {
    Ok(Uuid::from_bytes(reader.array()?))
}

/// Writes a boolean as one byte.
pub fn write_bool(out: &mut impl BufMut, value: bool) {
    out.put_u8(u8::from(value));
}

/// Reads a boolean: any byte but 0 is true, as in Java.
pub fn read_bool(reader: &mut Reader) -> Result<bool, DecodeError> {
    Ok(reader.u8()? != 0)
}

/// Reads a 32-bit count of items of at least `item_bytes` bytes each; refused when the input cannot
/// hold so many, so that callers may allocate for it.
pub fn read_count(
    reader: &mut Reader,
    item_bytes: usize,
    what: &'static str,
) -> Result<usize, DecodeError> {
    let count = reader.i32()?;
    let fits = usize::try_from(count)
        .ok()
        .filter(|n| n.saturating_mul(item_bytes) <= reader.remaining());
    fits.ok_or_else(|| DecodeError::invalid(what, count))
}

/// Writes a count as a 32-bit integer; counts beyond it cannot occur within the message limit.
pub fn write_count(out: &mut impl BufMut, count: usize) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

/// Writes a node's tokens as the gossip state TOKENS holds them: each with a 32-bit size, then 0.
pub fn write_tokens(out: &mut impl BufMut, tokens: &[Token]) {
    for token in tokens {
        out.put_i32(8);
        out.put_i64(token.0);
    }
    out.put_i32(0);
}

/// Reads what [`write_tokens`] writes. Only tokens of Murmur3Partitioner (eight bytes) are accepted.
pub fn read_tokens(reader: &mut Reader) -> Result<Vec<Token>, DecodeError> {
    let mut tokens = Vec::new();
    loop {
        match reader.i32()? {
            ..=0 => return Ok(tokens),
            8 => tokens.push(Token(reader.i64()?)),
            size => return Err(DecodeError::invalid("size of a token", size)),
        }
    }
}
