//! Counters that the admin server exports. Plain numbers: the shard's owner copies them out.

use helenus_schema::TableId;

/// Counters of a shard since it was opened, and gauges at the moment they were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct EngineMetrics {
    pub writes: u64,
    pub writes_refused: u64,
    pub reads: u64,
    pub tombstones_scanned: u64,
    pub flushes: u64,
    pub flush_failures: u64,
    pub flushed_bytes: u64,
    pub compactions: u64,
    pub compaction_failures: u64,
    pub compacted_bytes: u64,
    pub memtable_bytes: u64,
    pub flushing_bytes: u64,
    pub commitlog_bytes: u64,
    pub pending_flushes: u64,
    pub pending_compactions: u64,
    pub sstables: u64,
    pub sstable_bytes: u64,
    pub replayed_updates: u64,
    pub sstables_quarantined: u64,
    pub corrupt_reads: u64,
}

/// Counters of one table in one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TableMetrics {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub compactions: u64,
    pub memtable_bytes: u64,
    pub flushing_bytes: u64,
    pub sstables: u64,
    pub sstable_bytes: u64,
    pub sstables_read: u64,
    pub bloom_filter_skips: u64,
    pub tombstones_scanned: u64,
    pub pending_tasks: u64,
}

/// The name and counters of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTableMetrics {
    /// Identity.
    pub id: TableId,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Its counters.
    pub metrics: TableMetrics,
}
