//! Which tables still need which segments (L2).

use super::CommitLogPosition;
use helenus_schema::TableId;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    size_bytes: u64,
    closed: bool,
    /// Of an earlier run, with writes that may not have been replayed yet.
    held: bool,
    /// The last write of each table that is only here.
    dirty: BTreeMap<TableId, u32>,
}

/// The segments of a stream.
#[derive(Debug, Default)]
pub(super) struct Segments {
    by_id: BTreeMap<u64, Segment>,
}

impl Segments {
    /// Adds the segment that takes writes.
    pub(super) fn open(&mut self, path: PathBuf, id: u64) {
        let segment = Segment {
            path,
            size_bytes: 0,
            closed: false,
            held: false,
            dirty: BTreeMap::new(),
        };
        self.by_id.insert(id, segment);
    }

    /// Adds a segment of an earlier run; it stays until [`Segments::release`].
    pub(super) fn adopt(&mut self, path: PathBuf, id: u64, size_bytes: u64) {
        let segment = Segment {
            path,
            size_bytes,
            closed: true,
            held: true,
            dirty: BTreeMap::new(),
        };
        self.by_id.insert(id, segment);
    }

    /// Everything in segments of earlier runs was replayed.
    pub(super) fn release(&mut self) {
        self.by_id
            .values_mut()
            .for_each(|segment| segment.held = false);
    }

    pub(super) fn close(&mut self, id: u64, size_bytes: u64) {
        if let Some(segment) = self.by_id.get_mut(&id) {
            segment.size_bytes = size_bytes;
            segment.closed = true;
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.by_id.values().map(|segment| segment.size_bytes).sum()
    }

    pub(super) fn mark(&mut self, table: TableId, position: CommitLogPosition) {
        if let Some(segment) = self.by_id.get_mut(&position.segment) {
            let last = segment.dirty.entry(table).or_default();
            *last = position.offset.max(*last);
        }
    }

    pub(super) fn clean(&mut self, table: TableId, position: CommitLogPosition) {
        for (id, segment) in self.by_id.range_mut(..=position.segment) {
            let covered = |last: u32| *id < position.segment || last <= position.offset;
            if segment.dirty.get(&table).is_some_and(|last| covered(*last)) {
                segment.dirty.remove(&table);
            }
        }
    }

    pub(super) fn forget(&mut self, table: TableId) {
        for segment in self.by_id.values_mut() {
            segment.dirty.remove(&table);
        }
    }

    /// Removes closed segments without dirty tables and returns their paths.
    pub(super) fn take_clean(&mut self) -> Vec<PathBuf> {
        let clean = self.by_id.extract_if(.., |_, segment| {
            segment.closed && !segment.held && segment.dirty.is_empty()
        });
        clean.map(|(_, segment)| segment.path).collect()
    }

    pub(super) fn oldest_dirty(&self) -> Vec<TableId> {
        let oldest = self
            .by_id
            .values()
            .find(|segment| !segment.dirty.is_empty());
        oldest
            .map(|segment| segment.dirty.keys().copied().collect())
            .unwrap_or_default()
    }
}
