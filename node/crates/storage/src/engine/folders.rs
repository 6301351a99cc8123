//! Opening the folders of a table: leftovers of unfinished work go, damaged SSTables are set aside.
//!
//! An SSTable whose files do not fit together is moved to the folder `quarantine` beside the others, so
//! that a node with one bad file starts and serves the rest; an ERROR says to repair, and a metric
//! counts. Tables of the system are not served without a part of them: there the start fails.

use super::open::io;
use super::table::TableStore;
use super::{Engine, is_system};
use crate::error::{OpenError, TableError};
use crate::portion::{self, Left};
use crate::sstables::{self, Candidate, OpenSSTable};
use crate::transaction::{self, Transaction};
use helenus_schema::TableMetadata;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where damaged SSTables go.
const QUARANTINE: &str = "quarantine";

/// What the records and notes in all folders of a table say.
#[derive(Default)]
struct Leftovers {
    /// Not to be opened.
    obsolete: BTreeSet<(PathBuf, String)>,
    /// Shards that left an SSTable.
    left: BTreeMap<(PathBuf, String), Vec<Left>>,
    highest_generation: u64,
}

impl Engine {
    pub(super) fn as_left(&self) -> Left {
        Left {
            shard: self.settings.shard,
            shards: self.settings.shards.max(1),
        }
    }

    /// Opens a table's folders, finishing what a crash left unfinished.
    pub(super) fn open_table(
        &mut self,
        table: &Arc<TableMetadata>,
    ) -> Result<TableStore, OpenError> {
        let name = format!("{}-{}", table.name, table.id.0.simple());
        let directories = self.settings.data_directories.clone();
        let all: Vec<PathBuf> = directories
            .iter()
            .map(|directory| directory.join(&table.keyspace).join(&name))
            .collect();
        let mut leftovers = Leftovers::default();
        for folder in &all {
            self.clean(folder, &mut leftovers)?;
        }
        let mut sstables = Vec::new();
        for folder in &all {
            self.open_folder(folder, table, &mut leftovers, &mut sstables)?;
        }
        let mut folders: Vec<PathBuf> = all
            .into_iter()
            .filter(|folder| self.disk.exists(folder))
            .collect();
        if folders.is_empty() {
            folders.push(self.roomiest()?.join(&table.keyspace).join(&name));
        }
        let (shard, shards) = (
            self.settings.shard as u64,
            self.settings.shards.max(1) as u64,
        );
        let next_generation = (leftovers.highest_generation / shards + 1) * shards + shard;
        let mut store = TableStore::new(Arc::clone(table), folders, next_generation);
        store.sstables = sstables.into_iter().map(Arc::new).collect();
        store.sort_sstables();
        Ok(store)
    }

    fn roomiest(&self) -> Result<PathBuf, OpenError> {
        let directories = &self.settings.data_directories;
        let free = |directory: &&PathBuf| self.disk.space(directory).map_or(0, |(free, _)| free);
        match directories.as_slice() {
            [only] => Ok(only.clone()),
            _ => directories
                .iter()
                .max_by_key(free)
                .cloned()
                .ok_or_else(|| OpenError::Io {
                    action: "choose",
                    path: PathBuf::from("data_file_directories"),
                    source: std::io::ErrorKind::NotFound.into(),
                }),
        }
    }

    /// Reads the records and notes of a folder, and finishes what is this shard's to finish.
    fn clean(&self, folder: &Path, leftovers: &mut Leftovers) -> Result<(), OpenError> {
        let listed = self.disk.list(folder).map_err(io("list", folder))?;
        for path in &listed {
            if let Some((left, name)) = portion::parse(path) {
                let key = (folder.to_owned(), name);
                leftovers.left.entry(key).or_default().push(left);
            }
            let half_written = path
                .to_str()
                .and_then(|path| path.strip_suffix(".tmp"))
                .and_then(|path| transaction::parse_name(Path::new(path)));
            if half_written.is_some_and(|generation| self.cleans(generation)) {
                self.disk.remove(path).map_err(io("remove", path))?;
            }
            let Some(generation) = transaction::parse_name(path) else {
                continue;
            };
            leftovers.highest_generation = leftovers.highest_generation.max(generation);
            let record = transaction::load(&*self.disk, path)?;
            leftovers.add(folder, &record);
            if self.cleans(generation) {
                self.finish(folder, path, &record)?;
            }
        }
        Ok(())
    }

    fn finish(&self, folder: &Path, path: &Path, record: &Transaction) -> Result<(), OpenError> {
        let disk = &*self.disk;
        for entry in record.leftovers() {
            let (folder, name) = transaction::resolve(folder, entry);
            sstables::remove_by_name(disk, &folder, &name)?;
        }
        for (left, entry) in record.leaves.iter().filter(|_| record.committed) {
            let (folder, name) = transaction::resolve(folder, entry);
            let listed = disk.list(&folder).map_err(io("list", &folder))?;
            let there = sstables::in_folder(&listed)
                .iter()
                .any(|one| one.name() == name);
            if there {
                portion::note(disk, &folder, *left, &name)?;
            }
        }
        Ok(transaction::forget(disk, path)?)
    }

    fn open_folder(
        &mut self,
        folder: &Path,
        table: &Arc<TableMetadata>,
        leftovers: &mut Leftovers,
        sstables: &mut Vec<OpenSSTable>,
    ) -> Result<(), OpenError> {
        let listed = self.disk.list(folder).map_err(io("list", folder))?;
        let aside = folder.join(QUARANTINE);
        let set_aside = self.disk.list(&aside).map_err(io("list", &aside))?;
        for candidate in sstables::in_folder(&set_aside) {
            leftovers.saw(candidate.generation_number());
        }
        let own = self.as_left();
        for candidate in sstables::in_folder(&listed) {
            leftovers.saw(candidate.generation_number());
            let key = (folder.to_owned(), candidate.name());
            if leftovers.obsolete.contains(&key) {
                continue;
            }
            if !candidate.is_complete() {
                // its table of contents is written last: without it the SSTable was never finished
                if self.cleans(candidate.generation_number()) {
                    tracing::info!(sstable = key.1, folder = %folder.display(), "unfinished SSTable removed");
                    sstables::remove_by_name(&*self.disk, folder, &key.1)?;
                }
                continue;
            }
            let left = leftovers.left.get(&key).cloned().unwrap_or_default();
            let opened = OpenSSTable::open_named(&self.disk, candidate.descriptor.clone(), table);
            let opened = match opened {
                Ok(opened) => opened.among(own, left.clone()),
                Err(error) if is_damaged(&error) && !is_system(&table.keyspace) => {
                    self.set_aside(folder, &candidate, &listed, &error)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if left.contains(&own) {
                // done with it; a crash may have come between the last note and the removal
                opened.remove_files(&*self.disk)?;
            } else if opened.holds_tokens_of(own.shard, own.shards) {
                sstables.push(opened);
            }
        }
        Ok(())
    }

    /// Moves the files of a damaged SSTable away, the table of contents last: what a crash leaves
    /// behind is still found and moved the next time.
    fn set_aside(
        &mut self,
        folder: &Path,
        candidate: &Candidate,
        listed: &[PathBuf],
        error: &TableError,
    ) -> Result<(), OpenError> {
        let aside = folder.join(QUARANTINE);
        let front = format!("{}-", candidate.name());
        let name_of = |path: &PathBuf| {
            path.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let mut names: Vec<String> = listed.iter().filter_map(name_of).collect();
        names.retain(|name| name.starts_with(&front));
        names.sort_by_key(|name| name.ends_with("TOC.txt"));
        self.disk
            .create_dir_all(&aside)
            .map_err(io("create", &aside))?;
        for name in &names {
            let path = folder.join(name);
            self.disk
                .rename(&path, &aside.join(name))
                .map_err(io("move", &path))?;
        }
        for folder in [&aside, folder] {
            self.disk.sync_dir(folder).map_err(io("sync", folder))?;
        }
        self.metrics.sstables_quarantined += 1;
        tracing::error!(
            sstable = candidate.name(), quarantine = %aside.display(), %error,
            "a damaged SSTable was set aside: its rows are not served by this node; repair the table \
             from the other replicas, or put sound files back and restart"
        );
        Ok(())
    }

    /// Whether leftovers of this generation are this shard's to remove: each belongs to one.
    fn cleans(&self, generation: u64) -> bool {
        generation % self.settings.shards.max(1) as u64 == self.settings.shard as u64
    }
}

impl Leftovers {
    fn saw(&mut self, generation: u64) {
        self.highest_generation = self.highest_generation.max(generation);
    }

    fn add(&mut self, folder: &Path, record: &Transaction) {
        let resolved = |entry: &String| transaction::resolve(folder, entry);
        self.obsolete
            .extend(record.leftovers().iter().map(resolved));
        for (left, entry) in record.leaves.iter().filter(|_| record.committed) {
            self.left.entry(resolved(entry)).or_default().push(*left);
        }
    }
}

/// Whether the files themselves are at fault, so that a later start will not find them better.
fn is_damaged(error: &TableError) -> bool {
    match error {
        TableError::Damaged { .. } => true,
        TableError::Io { source, .. } => matches!(
            source.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof
        ),
        TableError::Unsupported { .. } | TableError::Unwritable(_) => false,
    }
}
