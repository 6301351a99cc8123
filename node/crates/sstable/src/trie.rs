//! Tries on disk: the indexes of BTI SSTables.
//!
//! Nodes stand behind their children, never across a page of 4 KiB, and branches that fit are kept
//! within a page. Sources: Cassandra 5.0 `TrieNode`, `IncrementalTrieWriterPageAware`, `Walker`,
//! `SizedInts`, `PageAware`.

pub(crate) mod node;
pub(crate) mod walker;
pub(crate) mod writer;

/// Size of a page.
pub(crate) const PAGE_SIZE: u64 = 4096;

/// How many bytes a signed integer takes, 1 to 8.
pub(crate) fn sized_length(value: i64) -> usize {
    let magnitude = if value < 0 { !value } else { value };
    (64 - magnitude.leading_zeros() as usize + 8) / 8
}

/// Appends the low `length` bytes of a value.
pub(crate) fn put_sized(value: i64, length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes()[8 - length.min(8)..]);
}

/// Reads a signed integer of 1 to 8 bytes.
pub(crate) fn sized(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let start = if bytes[0] >= 0x80 { -1_i64 } else { 0 };
    Some(
        bytes
            .iter()
            .fold(start, |value, byte| (value << 8) | i64::from(*byte)),
    )
}
