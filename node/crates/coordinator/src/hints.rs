//! Hints: writes kept on disk for replicas that did not take them, until they do.
//!
//! One folder; per target a sequence of append-only files named `<host id>-<number>.hints`. A file
//! begins with [`MAGIC`]; a record is a length (u32), the CRC32 of the length, the hint in
//! Cassandra's form (creation time in ms as i64, gc grace as vint, mutation of messaging 13), and
//! its CRC32. A torn tail (the machine lost power) ends the file.
//!
//! Invariants:
//! H1: a hint is deleted only after its endpoint acknowledged it, or it expired (older than the
//!     smallest gc grace of its tables: later it could bring deleted data back).
//! H2: a hint is in its file, as far as a killed process goes, before `keep` returns.
//! H3: delivering a hint twice changes nothing; a file is sent again whole after a restart.

use bytes::{BufMut, Bytes};
use helenus_rows::Mutation;
use helenus_rows::codec::{CodecError, Version, mutation};
use helenus_schema::Schema;
use helenus_seams::{Disk, DiskFile};
use helenus_types::{HostId, Reader, vint};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// First bytes of a hint file: name and version of the format.
pub const MAGIC: &[u8; 8] = b"HLNHINT1";
const VERSION: Version = Version::MESSAGING_13;
/// A file takes no more hints when it is this long.
const MAX_FILE_BYTES: u64 = 32 << 20;
const RECORD_OVERHEAD: usize = 12;

/// Why a hint could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum HintError {
    /// The disk refused.
    #[error("hints at {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The mutation has no form on disk.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// A hint as it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// When the write was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// The smallest `gc_grace_seconds` of its tables.
    pub gc_grace_seconds: i32,
    /// The write.
    pub mutation: Mutation,
}

impl Hint {
    /// A hint of a write made at `created_ms`.
    pub fn new(mutation: Mutation, created_ms: i64) -> Self {
        let graces = mutation
            .updates
            .iter()
            .map(|update| update.table.params.gc_grace_seconds);
        Self {
            created_ms,
            gc_grace_seconds: graces.min().unwrap_or(0),
            mutation,
        }
    }

    /// Whether it may not be applied any more (H1).
    pub fn is_expired(&self, now_ms: i64) -> bool {
        now_ms
            > self
                .created_ms
                .saturating_add(i64::from(self.gc_grace_seconds) * 1000)
    }

    /// Writes it in Cassandra's form.
    pub fn encode(&self, version: Version, out: &mut impl BufMut) -> Result<(), CodecError> {
        out.put_i64(self.created_ms);
        vint::write_unsigned(out, u64::try_from(self.gc_grace_seconds).unwrap_or(0));
        mutation::encode(&self.mutation, version, out)
    }

    /// Reads what [`Self::encode`] writes.
    pub fn decode(
        reader: &mut Reader,
        schema: &Schema,
        version: Version,
    ) -> Result<Self, CodecError> {
        let created_ms = reader.i64()?;
        let gc_grace_seconds = i32::try_from(reader.unsigned_vint()?).unwrap_or(i32::MAX);
        Ok(Self {
            created_ms,
            gc_grace_seconds,
            mutation: mutation::decode(reader, schema, version)?,
        })
    }
}

struct Open {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    length: u64,
}

#[derive(Default)]
struct Target {
    /// Closed files, oldest first.
    files: Vec<PathBuf>,
    open: Option<Open>,
}

/// All hints of this node. One owner.
pub struct HintStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    targets: BTreeMap<HostId, Target>,
    next_number: u64,
}

impl std::fmt::Debug for HintStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HintStore")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl HintStore {
    /// Opens the folder; hints of an earlier life are found again.
    pub fn open(disk: Arc<dyn Disk>, directory: PathBuf) -> Result<Self, HintError> {
        let failed = |error| HintError::Io {
            path: directory.clone(),
            error,
        };
        disk.create_dir_all(&directory).map_err(failed)?;
        let mut targets: BTreeMap<HostId, Target> = BTreeMap::new();
        let mut next_number = 1;
        for path in disk.list(&directory).map_err(failed)? {
            if let Some((host, number)) = parse_name(&path) {
                targets.entry(host).or_default().files.push(path);
                next_number = next_number.max(number + 1);
            }
        }
        for target in targets.values_mut() {
            target
                .files
                .sort_by_key(|path| parse_name(path).map(|name| name.1));
        }
        Ok(Self {
            disk,
            directory,
            targets,
            next_number,
        })
    }

    /// Hosts for which hints are kept.
    pub fn targets(&self) -> impl Iterator<Item = HostId> {
        self.targets.keys().copied()
    }

    /// Keeps a hint (H2).
    pub fn keep(&mut self, host: HostId, hint: &Hint) -> Result<(), HintError> {
        let mut body = Vec::new();
        hint.encode(VERSION, &mut body)?;
        let length =
            u32::try_from(body.len()).map_err(|_| CodecError::Invalid("a hint exceeds 4 GiB"))?;
        let mut record = Vec::with_capacity(body.len() + RECORD_OVERHEAD);
        record.put_u32(length);
        record.put_u32(crc32fast::hash(&length.to_be_bytes()));
        record.put_slice(&body);
        record.put_u32(crc32fast::hash(&body));
        let open = self.open_file(host)?;
        let path = open.path.clone();
        open.file
            .append(&record)
            .map_err(|error| HintError::Io { path, error })?;
        open.length += record.len() as u64;
        Ok(())
    }

    fn open_file(&mut self, host: HostId) -> Result<&mut Open, HintError> {
        let target = self.targets.entry(host).or_default();
        if let Some(full) = target.open.take_if(|open| open.length >= MAX_FILE_BYTES) {
            target.files.push(full.path);
        }
        if target.open.is_none() {
            let path = self
                .directory
                .join(format!("{host}-{}.hints", self.next_number));
            self.next_number += 1;
            let failed = |error| HintError::Io {
                path: path.clone(),
                error,
            };
            let file = self.disk.create(&path).map_err(failed)?;
            file.append(MAGIC).map_err(failed)?;
            self.disk.sync_dir(&self.directory).map_err(failed)?;
            target.open = Some(Open {
                path: path.clone(),
                file,
                length: MAGIC.len() as u64,
            });
        }
        target
            .open
            .as_mut()
            .ok_or(HintError::Codec(CodecError::Invalid("no open hint file")))
    }

    /// The oldest file of a host, closed for further hints; `None` when there are none left.
    pub fn next_file(&mut self, host: HostId) -> Option<PathBuf> {
        let target = self.targets.get_mut(&host)?;
        if target.files.is_empty()
            && let Some(open) = target.open.take()
        {
            target.files.push(open.path);
        }
        let next = target.files.first().cloned();
        if next.is_none() {
            self.targets.remove(&host);
        }
        next
    }

    /// Reads a file. Hints of tables that are gone are left out; so is a torn tail.
    pub fn read(&self, path: &Path, schema: &Schema) -> Result<Vec<Hint>, HintError> {
        let content = self.disk.read(path).map_err(|error| HintError::Io {
            path: path.to_owned(),
            error,
        })?;
        let (hints, torn) = parse(content, schema);
        if torn {
            tracing::warn!(path = %path.display(), hints = hints.len(), "hint file ends in the middle of a record or is damaged there: the rest is left out; repair the tables of this host");
        }
        Ok(hints)
    }

    /// Every hint of the file was acknowledged: deletes it (H1).
    pub fn delivered(&mut self, host: HostId, path: &Path) -> Result<(), HintError> {
        if let Some(target) = self.targets.get_mut(&host) {
            target.files.retain(|file| file != path);
        }
        self.disk.remove(path).map_err(|error| HintError::Io {
            path: path.to_owned(),
            error,
        })
    }
}

fn parse_name(path: &Path) -> Option<(HostId, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".hints")?;
    let (host, number) = name.rsplit_once('-')?;
    Some((HostId(Uuid::try_parse(host).ok()?), number.parse().ok()?))
}

/// Hints of a file, and whether it ends before its last record does.
fn parse(content: Bytes, schema: &Schema) -> (Vec<Hint>, bool) {
    // the process was killed before the first hint was in it: nothing is lost
    if MAGIC.starts_with(&content) {
        return (Vec::new(), false);
    }
    let mut reader = Reader::new(content);
    if reader.bytes(MAGIC.len()).ok().as_deref() != Some(&MAGIC[..]) {
        return (Vec::new(), true);
    }
    let mut hints = Vec::new();
    while !reader.is_empty() {
        let Some(body) = next_record(&mut reader) else {
            return (hints, true);
        };
        match Hint::decode(&mut Reader::new(body), schema, VERSION) {
            Ok(hint) => hints.push(hint),
            Err(error) => tracing::info!(%error, "left out a hint that fits no table any more"),
        }
    }
    (hints, false)
}

fn next_record(reader: &mut Reader) -> Option<Bytes> {
    let length = reader.u32().ok()?;
    if reader.u32().ok()? != crc32fast::hash(&length.to_be_bytes()) {
        return None;
    }
    let body = reader.bytes(usize::try_from(length).ok()?).ok()?;
    (reader.u32().ok()? == crc32fast::hash(&body)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_rows::{Cell, Clustering, Partition, PartitionUpdate, Row, Unfiltered};
    use helenus_schema::{Keyspace, Replication, TableId, TableMetadata};
    use helenus_seams::SimulatedDisk;
    use helenus_types::{CqlType, DecoratedKey};

    fn schema() -> Schema {
        let table = TableMetadata::builder("k", "t", TableId(Uuid::from_u128(7)))
            .partition_key("p", CqlType::Int)
            .regular("v", CqlType::Int)
            .build();
        let mut keyspace = Keyspace::new("k", Replication::simple(3));
        keyspace.tables.insert("t".into(), Arc::new(table));
        Schema::new([Arc::new(keyspace)], Uuid::nil())
    }

    fn hint(schema: &Schema, value: i32) -> Hint {
        let table = Arc::clone(schema.table("k", "t").unwrap());
        let column = table.regular_columns()[0].id;
        let mut row = Row::new(Clustering::default());
        row.add_cell(
            &table,
            column,
            Cell::live(5, 0, 0, None, Bytes::copy_from_slice(&value.to_be_bytes())),
        );
        let mut partition = Partition::new(DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1])));
        partition.unfiltereds.push(Unfiltered::Row(row));
        Hint::new(Mutation::of(PartitionUpdate { table, partition }), 1_000)
    }

    #[test]
    fn hints_survive_a_killed_process_and_end_at_a_torn_tail() {
        let (disk, schema, host) = (
            SimulatedDisk::default(),
            schema(),
            HostId(Uuid::from_u128(9)),
        );
        let directory = PathBuf::from("/hints");
        let hints = [hint(&schema, 1), hint(&schema, 2)];
        {
            let mut store = HintStore::open(Arc::new(disk.clone()), directory.clone()).unwrap();
            for hint in &hints {
                store.keep(host, hint).unwrap();
            }
        }
        let mut store = HintStore::open(Arc::new(disk.clone()), directory.clone()).unwrap();
        assert_eq!(store.targets().collect::<Vec<_>>(), [host]);
        let path = store.next_file(host).unwrap();
        assert_eq!(store.read(&path, &schema).unwrap(), hints);
        let length = disk.read(&path).unwrap().len();
        disk.truncate(&path, length - 1).unwrap();
        assert_eq!(store.read(&path, &schema).unwrap(), hints[..1]);
        store.delivered(host, &path).unwrap();
        assert_eq!(store.next_file(host), None);
        assert_eq!(store.targets().count(), 0);
    }

    #[test]
    fn hints_expire_with_the_grace_of_their_tables() {
        let hint = hint(&schema(), 1);
        assert!(!hint.is_expired(864_000_000));
        assert!(hint.is_expired(864_002_000));
    }
}
