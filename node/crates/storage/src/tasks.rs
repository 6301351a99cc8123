//! Work that takes long, as values: the engine makes them, another thread runs them, the engine
//! takes their output.

use crate::commitlog::{CommitLogPosition, FlushPositions, PositionsError, Stream};
use crate::compaction::CompactionTask;
use crate::error::{ReadError, TableError};
use crate::memtable::Memtable;
use crate::sstables::{self, OpenSSTable, Sink};
use crate::transaction;
use helenus_rows::{ClusteringFilter, ColumnFilter};
use helenus_schema::{TableId, TableMetadata};
use helenus_seams::Disk;
use std::path::PathBuf;
use std::sync::Arc;

/// A piece of background work. Run it on any thread; give the output to [`crate::Engine::complete`].
pub enum Task {
    /// Writes a memtable as an SSTable.
    Flush(FlushTask),
    /// Writes several SSTables as one.
    Compact(CompactionTask),
    /// Stores positions of the commit log and removes what nobody needs.
    Housekeep(HousekeepingTask),
}

/// What came of a [`Task`].
pub enum TaskOutput {
    /// Of a flush.
    Flushed(FlushOutput),
    /// Of a compaction.
    Compacted(crate::compaction::CompactionOutput),
    /// Of housekeeping.
    Housekept(HousekeepingOutput),
}

impl Task {
    /// Does the work. Blocks for as long as it takes.
    pub fn run(self, disk: &Arc<dyn Disk>) -> TaskOutput {
        match self {
            Self::Flush(task) => TaskOutput::Flushed(task.run(disk)),
            Self::Compact(task) => TaskOutput::Compacted(task.run(disk)),
            Self::Housekeep(task) => TaskOutput::Housekept(task.run(&**disk)),
        }
    }

    /// The table that it works on.
    pub fn table(&self) -> Option<&Arc<TableMetadata>> {
        match self {
            Self::Flush(task) => Some(&task.table),
            Self::Compact(task) => Some(&task.table),
            Self::Housekeep(_) => None,
        }
    }

    /// A word for logs: `flush`, `compact` or `housekeep`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flush(_) => "flush",
            Self::Compact(_) => "compact",
            Self::Housekeep(_) => "housekeep",
        }
    }
}

/// Writes a memtable as an SSTable.
pub struct FlushTask {
    pub(crate) table: Arc<TableMetadata>,
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) upper: CommitLogPosition,
    pub(crate) folder: PathBuf,
    pub(crate) generation: u64,
    pub(crate) guard: Arc<()>,
}

/// What came of a [`FlushTask`].
pub struct FlushOutput {
    /// Dropped when the engine has taken the output.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) guard: Arc<()>,
    pub(crate) table: TableId,
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) upper: CommitLogPosition,
    /// `None` when there was nothing to write.
    pub(crate) result: Result<Option<OpenSSTable>, ReadError>,
}

impl FlushTask {
    fn run(self, disk: &Arc<dyn Disk>) -> FlushOutput {
        let result = self.write(disk);
        FlushOutput {
            table: self.table.id,
            memtable: self.memtable,
            upper: self.upper,
            guard: self.guard,
            result,
        }
    }

    fn write(&self, disk: &Arc<dyn Disk>) -> Result<Option<OpenSSTable>, ReadError> {
        disk.create_dir_all(&self.folder)
            .map_err(TableError::io("create", &self.folder))?;
        let written = self.memtable.table();
        let count = self.memtable.partition_count() as u64;
        let result = Sink::create(
            disk,
            &self.folder,
            self.generation,
            written,
            count,
            self.memtable.encoding_stats(),
        )
        .map_err(ReadError::from)
        .and_then(|sink| self.fill(sink));
        match result {
            Ok(true) => Ok(Some(OpenSSTable::open(
                disk,
                &self.folder,
                self.generation,
                &self.table,
            )?)),
            Ok(false) => Ok(None),
            Err(error) => {
                let name = sstables::name_of_new(&self.folder, self.generation);
                if let Err(error) = sstables::remove_by_name(&**disk, &self.folder, &name) {
                    tracing::warn!(%error, "leftovers of a failed flush stay until the next start");
                }
                Err(error)
            }
        }
    }

    fn fill(&self, mut sink: Sink) -> Result<bool, ReadError> {
        let (filter, columns) = (
            ClusteringFilter::all(),
            ColumnFilter::All {
                queried: Vec::new(),
            },
        );
        for (key, partition) in self.memtable.partitions() {
            sink.append(self.memtable.source(key, partition, &filter, &columns))?;
        }
        Ok(sink.finish()?)
    }
}

/// SSTables to be removed, and the record of the transaction that made them obsolete.
#[derive(Default)]
pub(crate) struct Obsolete {
    pub(crate) sstables: Vec<Arc<OpenSSTable>>,
    pub(crate) record: Option<PathBuf>,
    /// Names, in the record's folder, of SSTables that were still being written.
    pub(crate) unborn: Vec<String>,
    /// Their writers hold these.
    pub(crate) running: Vec<Arc<()>>,
}

impl Obsolete {
    /// Whether nobody reads them any more.
    pub(crate) fn is_free(&self) -> bool {
        self.sstables
            .iter()
            .all(|sstable| Arc::strong_count(sstable) == 1)
            && self
                .running
                .iter()
                .all(|guard| Arc::strong_count(guard) == 1)
    }
}

/// Stores positions of the commit log, then removes segments and files that nobody needs.
pub struct HousekeepingTask {
    pub(crate) positions: Option<FlushPositions>,
    pub(crate) log_directory: PathBuf,
    pub(crate) stream: Stream,
    pub(crate) segments: Vec<PathBuf>,
    pub(crate) obsolete: Vec<Obsolete>,
}

/// What came of a [`HousekeepingTask`].
pub struct HousekeepingOutput {
    pub(crate) positions: Result<(), PositionsError>,
    /// What could not be removed: tried again later.
    pub(crate) segments: Vec<PathBuf>,
    pub(crate) obsolete: Vec<Obsolete>,
}

impl HousekeepingTask {
    fn run(self, disk: &dyn Disk) -> HousekeepingOutput {
        let stored = self.positions.map_or(Ok(()), |positions| {
            positions.store(disk, &self.log_directory, self.stream)
        });
        if stored.is_err() {
            return HousekeepingOutput {
                positions: stored,
                segments: self.segments,
                obsolete: self.obsolete,
            };
        }
        let remove = |path: &PathBuf| match disk.remove(path) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot remove a commit log segment");
                error.kind() == std::io::ErrorKind::NotFound
            }
        };
        let segments = self
            .segments
            .into_iter()
            .filter(|path| !remove(path))
            .collect();
        let mut obsolete = Vec::new();
        for one in self.obsolete {
            if let Err(error) = remove_obsolete(disk, &one) {
                tracing::warn!(%error, "cannot remove an obsolete SSTable");
                obsolete.push(one);
            }
        }
        HousekeepingOutput {
            positions: stored,
            segments,
            obsolete,
        }
    }
}

fn remove_obsolete(disk: &dyn Disk, obsolete: &Obsolete) -> Result<(), TableError> {
    for sstable in &obsolete.sstables {
        sstable.remove_files(disk)?;
    }
    if let Some(folder) = obsolete.record.as_ref().and_then(|record| record.parent()) {
        for name in &obsolete.unborn {
            sstables::remove_by_name(disk, folder, name)?;
        }
    }
    obsolete
        .record
        .as_ref()
        .map_or(Ok(()), |record| transaction::forget(disk, record))
}
