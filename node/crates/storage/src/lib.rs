//! The storage engine of one shard: commit log, memtables, SSTables, reads and compaction. A single
//! owner calls it with `&mut self`; what takes long is a value that another thread runs.

pub mod commitlog;
pub mod compaction;
pub mod engine;
pub mod error;
pub mod memtable;
pub mod metrics;
mod portion;
pub mod scan;
pub mod settings;
pub mod sstables;
pub mod tasks;
mod transaction;

pub use engine::{Applied, Engine, ReadOutcome, ScanChunk};
pub use error::{ApplyError, MaintenanceError, OpenError, ReadError, TableError};
pub use settings::EngineSettings;
pub use tasks::{Task, TaskOutput};
