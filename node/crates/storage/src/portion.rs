//! SSTables that hold tokens of several shards: written before the count of shards changed, or by
//! Cassandra. Each shard reads its own part, writes it anew as an SSTable of its own, and then leaves
//! a note beside the files. Who leaves last removes them.
//!
//! Form of a note: an empty file `helenus-left-<shard>-of-<shards>-<name>`.
//!
//! Invariants:
//! N1: what a shard left is never read again from there, whatever the count of shards is later:
//!     tombstones that hid it may be purged.
//! N2: files are removed when a note of each shard of their tokens is there.

use crate::error::TableError;
use helenus_seams::Disk;
use helenus_types::Token;
use std::path::{Path, PathBuf};

const PREFIX: &str = "helenus-left-";

/// A shard of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Left {
    pub(crate) shard: usize,
    pub(crate) shards: usize,
}

impl Left {
    fn has(self, token: Token) -> bool {
        token.shard(self.shards) == self.shard
    }

    /// Its first token.
    pub(crate) fn first_token(self) -> Token {
        let shards = self.shards.max(1) as u128;
        let biased = ((self.shard as u128) << 64).div_ceil(shards);
        Token(u64::try_from(biased).unwrap_or(u64::MAX).cast_signed() ^ i64::MIN)
    }
}

/// What part of an SSTable one shard reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Portion {
    /// Set when there are tokens of other shards too.
    own: Option<Left>,
    left: Vec<Left>,
    /// The shards whose tokens there are: first and last.
    span: (usize, usize),
}

impl Portion {
    pub(crate) fn of(shard: Left, first: Token, last: Token, left: Vec<Left>) -> Self {
        let span = (first.shard(shard.shards), last.shard(shard.shards));
        Self {
            own: (span.0 != span.1).then_some(shard),
            left,
            span,
        }
    }

    /// The shard that reads it, when there are tokens of others too.
    pub(crate) fn shares(&self) -> Option<Left> {
        self.own
    }

    pub(crate) fn holds(&self, token: Token) -> bool {
        self.own.is_none_or(|own| own.has(token)) && !self.left.iter().any(|left| left.has(token))
    }

    /// Whether some keys of the file are not to be read.
    pub(crate) fn is_partial(&self) -> bool {
        self.own.is_some() || !self.left.is_empty()
    }

    /// Notes that the shard is done, and says whether it was the last.
    pub(crate) fn leave(
        &self,
        own: Left,
        disk: &dyn Disk,
        folder: &Path,
        name: &str,
    ) -> Result<bool, TableError> {
        note(disk, folder, own, name)?;
        let notes = (self.span.0..=self.span.1).map(|shard| Left { shard, ..own });
        Ok(notes
            .map(|left| path(folder, left, name))
            .all(|path| disk.exists(&path)))
    }
}

/// Where a note is.
pub(crate) fn path(folder: &Path, left: Left, name: &str) -> PathBuf {
    let Left { shard, shards } = left;
    folder.join(format!("{PREFIX}{shard}-of-{shards}-{name}"))
}

/// The shard and the SSTable of a note.
pub(crate) fn parse(path: &Path) -> Option<(Left, String)> {
    let rest = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    let (shard, rest) = rest.split_once("-of-")?;
    let (shards, name) = rest.split_once('-')?;
    let (shard, shards) = (shard.parse().ok()?, shards.parse().ok()?);
    Some((Left { shard, shards }, name.to_owned()))
}

/// Leaves a note, durably.
pub(crate) fn note(
    disk: &dyn Disk,
    folder: &Path,
    left: Left,
    name: &str,
) -> Result<(), TableError> {
    let note = path(folder, left, name);
    match disk.create(&note) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(TableError::io("create", &note)(error));
        }
        _ => {}
    }
    disk.sync_dir(folder)
        .map_err(TableError::io("sync", folder))
}

/// Removes the notes about an SSTable whose files are gone.
pub(crate) fn remove_notes(disk: &dyn Disk, folder: &Path, name: &str) -> Result<(), TableError> {
    for listed in disk.list(folder).map_err(TableError::io("list", folder))? {
        if parse(&listed).is_some_and(|(_, about)| about == name) {
            match disk.remove(&listed) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(TableError::io("remove", &listed)(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_tokens_are_where_shards_begin() {
        for shards in [1, 2, 3, 7, 64] {
            for shard in 0..shards {
                let first = Left { shard, shards }.first_token();
                assert_eq!(first.shard(shards), shard);
                if shard > 0 {
                    assert_eq!(Token(first.0 - 1).shard(shards), shard - 1);
                }
            }
        }
    }

    #[test]
    fn notes_are_found_by_name() {
        let left = Left {
            shard: 2,
            shards: 12,
        };
        let note = path(Path::new("/d"), left, "nb-3gpt_0bd5_1ekq82cmoqxmvzzzzz-big");
        assert_eq!(
            parse(&note),
            Some((left, "nb-3gpt_0bd5_1ekq82cmoqxmvzzzzz-big".into()))
        );
    }
}
