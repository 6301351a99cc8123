//! The bytes of a segment file. All integers big-endian.
//!
//! Header: magic `HLCL`, u16 version, u16 zero, u64 segment id, u32 shard, u32 count of shards, u32
//! CRC-32 of what is before. Then records: u32 length, u32 CRC-32 of the length, the mutation, u32
//! CRC-32 of the mutation. A length of `u32::MAX` is a sync marker instead: u64 segment id, u32
//! offset up to which the file was durable when it was written, u32 CRC-32 of both.

use super::Stream;
use helenus_types::{BufMut, Bytes, Reader};

const MAGIC: u32 = 0x484c_434c;
const VERSION: u16 = 1;
const MARKER_LENGTH: u32 = u32::MAX;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 28;
/// Bytes of a sync marker.
pub(super) const MARKER_BYTES: usize = 24;
/// Bytes that a record takes beside its mutation.
pub const MAX_RECORD_OVERHEAD: usize = 12;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Id, ascending within a stream.
    pub id: u64,
    /// Who wrote it.
    pub stream: Stream,
}

impl Header {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.put_u32(MAGIC);
        out.put_u16(VERSION);
        out.put_u16(0);
        out.put_u64(self.id);
        out.put_u32(self.stream.shard);
        out.put_u32(self.stream.shards);
        let crc = crc32fast::hash(&out);
        out.put_u32(crc);
        out
    }

    /// Reads a header; the error says what is wrong with it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((head, rest)) = bytes.split_at_checked(HEADER_BYTES - 4) else {
            return Err("the header is cut short");
        };
        let crc = rest.first_chunk().map(|crc| u32::from_be_bytes(*crc));
        if crc != Some(crc32fast::hash(head)) {
            return Err("the header's checksum is wrong");
        }
        let mut reader = Reader::copied(head);
        let mut read = || -> Result<_, helenus_types::Truncated> {
            let (magic, version) = (reader.u32()?, reader.u16()?);
            reader.u16()?;
            Ok((
                magic,
                version,
                Self {
                    id: reader.u64()?,
                    stream: Stream {
                        shard: reader.u32()?,
                        shards: reader.u32()?,
                    },
                },
            ))
        };
        match read() {
            Ok((MAGIC, VERSION, header)) => Ok(header),
            Ok((MAGIC, _, _)) => Err("it was written by a newer version of this node"),
            _ => Err("it is not a commit log segment of this node"),
        }
    }
}

/// The name of a segment file.
pub(super) fn file_name(shard: u32, id: u64) -> String {
    format!("helenus-commitlog-{shard}-{id}.log")
}

/// Shard and id in the name of a segment file.
pub(super) fn parse_file_name(name: &str) -> Option<(u32, u64)> {
    let (shard, id) = name
        .strip_prefix("helenus-commitlog-")?
        .strip_suffix(".log")?
        .split_once('-')?;
    Some((shard.parse().ok()?, id.parse().ok()?))
}

pub(super) fn put_record(record: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(record.len())
        .unwrap_or(MARKER_LENGTH - 1)
        .to_be_bytes();
    out.extend_from_slice(&length);
    out.put_u32(crc32fast::hash(&length));
    out.extend_from_slice(record);
    out.put_u32(crc32fast::hash(record));
}

pub(super) fn put_sync_marker(id: u64, synced: u32, out: &mut Vec<u8>) {
    let length = MARKER_LENGTH.to_be_bytes();
    out.extend_from_slice(&length);
    out.put_u32(crc32fast::hash(&length));
    let start = out.len();
    out.put_u64(id);
    out.put_u32(synced);
    let crc = crc32fast::hash(&out[start..]);
    out.put_u32(crc);
}

/// One thing after the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A mutation's bytes.
    Record(Bytes),
    /// Everything before this offset was durable.
    Synced(u32),
}

/// Reads the entry at `offset`; `None` when there is none that is whole and has right checksums.
pub(super) fn entry_at(file: &Bytes, offset: usize, id: u64) -> Option<(Entry, usize)> {
    let mut reader = Reader::new(file.slice(offset..));
    let length = reader.u32().ok()?;
    if reader.u32().ok()? != crc32fast::hash(&length.to_be_bytes()) {
        return None;
    }
    if length == MARKER_LENGTH {
        let body = reader.bytes(12).ok()?;
        let right = reader.u32().ok()? == crc32fast::hash(&body);
        let mut body = Reader::new(body);
        let (marked, synced) = (body.u64().ok()?, body.u32().ok()?);
        return (right && marked == id).then_some((Entry::Synced(synced), offset + MARKER_BYTES));
    }
    let record = reader.bytes(usize::try_from(length).ok()?).ok()?;
    let right = reader.u32().ok()? == crc32fast::hash(&record);
    let end = offset + record.len() + MAX_RECORD_OVERHEAD;
    right.then_some((Entry::Record(record), end))
}

/// The next sync marker at or after `offset` that vouches for bytes after `damage`, and where it ends.
pub(super) fn marker_past(file: &Bytes, offset: usize, damage: usize, id: u64) -> Option<usize> {
    let pattern = [0xff; 4];
    let last = file.len().checked_sub(MARKER_BYTES)?;
    (offset..=last).find_map(|at| {
        if file[at..at + 4] != pattern {
            return None;
        }
        match entry_at(file, at, id) {
            Some((Entry::Synced(synced), end)) if synced as usize > damage => Some(end),
            _ => None,
        }
    })
}
