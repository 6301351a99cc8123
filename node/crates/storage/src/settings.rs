//! Settings of one shard's engine.

use crate::commitlog::CommitLogSettings;
use std::path::PathBuf;

/// Settings of one shard's engine.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Folders of SSTables (`data_file_directories`); new tables go to the first with the most space.
    pub data_directories: Vec<PathBuf>,
    /// This shard's index.
    pub shard: usize,
    /// Count of shards of the node.
    pub shards: usize,
    /// The commit log.
    pub commitlog: CommitLogSettings,
    /// Bytes that this shard's memtables may hold before writes are refused.
    pub memtable_budget_bytes: usize,
    /// Share of the budget at which the largest memtable is flushed (`memtable_cleanup_threshold`).
    pub memtable_flush_share: f64,
    /// Tombstones in one read that are reported (`tombstone_warn_threshold`).
    pub tombstone_warn_threshold: u64,
    /// Tombstones in one read that make it fail (`tombstone_failure_threshold`).
    pub tombstone_failure_threshold: u64,
    /// Compactions of this shard that may run at once (`concurrent_compactors` by shards, at least 1).
    pub concurrent_compactions: usize,
    /// Bytes that one answer of [`crate::Engine::read`] may hold before the read fails.
    pub read_size_limit_bytes: usize,
}

impl EngineSettings {
    /// Cassandra's defaults for a node of one shard.
    pub fn new(data_directory: PathBuf, commitlog_directory: PathBuf) -> Self {
        Self {
            data_directories: vec![data_directory],
            shard: 0,
            shards: 1,
            commitlog: CommitLogSettings::in_directory(commitlog_directory),
            memtable_budget_bytes: 256 << 20,
            memtable_flush_share: 0.4,
            tombstone_warn_threshold: 1_000,
            tombstone_failure_threshold: 100_000,
            concurrent_compactions: 1,
            read_size_limit_bytes: 128 << 20,
        }
    }
}
