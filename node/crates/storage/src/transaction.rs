//! Replacing SSTables as a whole. A record beside them says what is added and what removed; until it
//! is committed the added are leftovers, after that the removed are. Opening a table finishes
//! whatever was begun, so that a crash at any point leaves the old SSTables or the new.
//!
//! Form of `helenus-transaction-<generation>.txt`: the line `helenus-transaction 1`, lines
//! `add <name>`, `remove <name>` and `leave <shard> <shards> <name>`, the line `committed` or `begun`,
//! the line `crc32 <hexadecimal>`. A name is what the files of an SSTable begin with, such as
//! `da-7-bti`, after its folder when that is not the record's. The record is replaced as a whole.
//! What is left rather than removed is an SSTable that other shards still read: see [`crate::portion`].

use crate::error::TableError;
use crate::portion::Left;
use crate::sstables::OpenSSTable;
use helenus_seams::Disk;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "helenus-transaction 1";
const PREFIX: &str = "helenus-transaction-";

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Transaction {
    pub(crate) adds: Vec<String>,
    pub(crate) removes: Vec<String>,
    /// SSTables of several shards that one shard needs no more.
    pub(crate) leaves: Vec<(Left, String)>,
    pub(crate) committed: bool,
}

impl Transaction {
    /// Notes that this shard needs an SSTable no more.
    pub(crate) fn give_up(&mut self, folder: &Path, sstable: &OpenSSTable) {
        let name = if sstable.folder() == folder {
            sstable.name()
        } else {
            sstable.folder().join(sstable.name()).display().to_string()
        };
        match sstable.shares() {
            Some(left) => self.leaves.push((left, name)),
            None => self.removes.push(name),
        }
    }

    /// SSTables that are to be removed should the node end now.
    pub(crate) fn leftovers(&self) -> &[String] {
        if self.committed {
            &self.removes
        } else {
            &self.adds
        }
    }

    /// Replaces the record, durably.
    pub(crate) fn store(&self, disk: &dyn Disk, path: &Path) -> Result<(), TableError> {
        let mut text = String::from(FIRST_LINE);
        for (word, names) in [("add", &self.adds), ("remove", &self.removes)] {
            for name in names {
                // writing to a string cannot fail
                write!(text, "\n{word} {name}").unwrap_or_default();
            }
        }
        for (left, name) in &self.leaves {
            write!(text, "\nleave {} {} {name}", left.shard, left.shards).unwrap_or_default();
        }
        text.push_str(if self.committed {
            "\ncommitted"
        } else {
            "\nbegun"
        });
        let crc = crc32fast::hash(text.as_bytes());
        write!(text, "\ncrc32 {crc:08x}\n").unwrap_or_default();
        disk.write_atomically(path, text.as_bytes())
            .map_err(TableError::io("write", path))
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        let (body, crc) = text
            .trim_end()
            .rsplit_once("\ncrc32 ")
            .ok_or("its checksum is missing")?;
        if u32::from_str_radix(crc, 16) != Ok(crc32fast::hash(body.as_bytes())) {
            return Err("its checksum is wrong");
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("its version is unknown");
        }
        let mut transaction = Self::default();
        for line in lines {
            match line.split_once(' ') {
                Some(("add", name)) => transaction.adds.push(name.to_owned()),
                Some(("remove", name)) => transaction.removes.push(name.to_owned()),
                Some(("leave", rest)) => transaction.leaves.push(parse_leave(rest)?),
                None if line == "committed" => transaction.committed = true,
                None if line == "begun" => {}
                _ => return Err("it has an unknown line"),
            }
        }
        Ok(transaction)
    }
}

fn parse_leave(text: &str) -> Result<(Left, String), &'static str> {
    let mut words = text.splitn(3, ' ');
    let mut next = || words.next().ok_or("it has a short line");
    let mut number = || next()?.parse().map_err(|_| "it has a wrong number");
    let (shard, shards) = (number()?, number()?);
    Ok((Left { shard, shards }, next()?.to_owned()))
}

/// Folder and name of an SSTable that a record in `folder` names.
pub(crate) fn resolve(folder: &Path, entry: &str) -> (PathBuf, String) {
    match entry.rsplit_once('/') {
        Some((other, name)) => (PathBuf::from(other), name.to_owned()),
        None => (folder.to_owned(), entry.to_owned()),
    }
}

/// The record of the transaction whose first new SSTable has this generation.
pub(crate) fn path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{generation}.txt"))
}

/// The generation in the name of a record.
pub(crate) fn parse_name(path: &Path) -> Option<u64> {
    path.file_name()?
        .to_str()?
        .strip_prefix(PREFIX)?
        .strip_suffix(".txt")?
        .parse()
        .ok()
}

/// Reads a record.
pub(crate) fn load(disk: &dyn Disk, path: &Path) -> Result<Transaction, TableError> {
    let bytes = disk.read(path).map_err(TableError::io("read", path))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not text");
    text.and_then(Transaction::parse)
        .map_err(|reason| TableError::Damaged {
            path: path.to_owned(),
            reason: format!("the record of a transaction is damaged: {reason}"),
        })
}

/// Removes a record whose leftovers are gone, after making their removal durable.
pub(crate) fn forget(disk: &dyn Disk, path: &Path) -> Result<(), TableError> {
    if let Some(folder) = path.parent() {
        disk.sync_dir(folder)
            .map_err(TableError::io("sync", folder))?;
    }
    match disk.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(TableError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_seams::SimulatedDisk;

    #[test]
    fn records_round_trip_and_damage_is_found() {
        let disk = SimulatedDisk::default();
        let file = path(Path::new("/d"), 7);
        assert_eq!(parse_name(&file), Some(7));
        let record = Transaction {
            adds: vec!["da-7-bti".into()],
            removes: vec!["nb-1-big".into(), "/other disk/k/t-1/da-3-bti".into()],
            leaves: vec![(
                Left {
                    shard: 1,
                    shards: 4,
                },
                "da-2-bti".into(),
            )],
            committed: true,
        };
        record.store(&disk, &file).unwrap();
        assert_eq!(load(&disk, &file).unwrap(), record);
        disk.flip_byte(&file, 25).unwrap();
        assert!(matches!(
            load(&disk, &file),
            Err(TableError::Damaged { .. })
        ));
    }
}
