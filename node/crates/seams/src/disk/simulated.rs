//! A file system in memory. A crash loses every byte that was not synced and every name that its
//! folder had not synced; a capacity makes it full.

use super::{Disk, DiskFile};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: usize,
}

type Inode = Arc<Mutex<Content>>;

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, Inode>,
    synced_names: BTreeMap<PathBuf, Inode>,
    folders: BTreeSet<PathBuf>,
    capacity_bytes: Option<u64>,
}

/// A file system in memory; clones share it.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

struct SimulatedFile {
    inode: Inode,
    state: Arc<Mutex<State>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, path.display().to_string())
}

impl State {
    fn used(&self) -> u64 {
        self.names
            .values()
            .map(|inode| held(inode).bytes.len() as u64)
            .sum()
    }
}

impl SimulatedDisk {
    /// Limits the sum of all file lengths; appends beyond it fail with `StorageFull`.
    pub fn set_capacity(&self, bytes: u64) {
        held(&self.state).capacity_bytes = Some(bytes);
    }

    /// The machine loses power: only synced names with their synced bytes remain.
    pub fn crash(&self) {
        let mut state = held(&self.state);
        state.names = state.synced_names.clone();
        for inode in state.names.values() {
            let mut content = held(inode);
            let synced = content.synced;
            content.bytes.truncate(synced);
        }
    }

    /// Changes one byte of a file, as a failing disk does.
    pub fn flip_byte(&self, path: &Path, offset: usize) -> io::Result<()> {
        let state = held(&self.state);
        let inode = state.names.get(path).ok_or_else(|| not_found(path))?;
        let mut content = held(inode);
        let byte = content
            .bytes
            .get_mut(offset)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        *byte ^= 0x40;
        Ok(())
    }

    /// Cuts a file to `length` bytes, as a torn write does.
    pub fn truncate(&self, path: &Path, length: usize) -> io::Result<()> {
        let state = held(&self.state);
        let inode = state.names.get(path).ok_or_else(|| not_found(path))?;
        let mut content = held(inode);
        content.bytes.truncate(length);
        content.synced = content.synced.min(length);
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(held(&self.inode).bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = held(&self.inode);
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(content.bytes.len());
        let count = buffer.len().min(content.bytes.len() - start);
        buffer[..count].copy_from_slice(&content.bytes[start..start + count]);
        Ok(count)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let state = held(&self.state);
        if state
            .capacity_bytes
            .is_some_and(|capacity| state.used() + bytes.len() as u64 > capacity)
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        held(&self.inode).bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut content = held(&self.inode);
        content.synced = content.bytes.len();
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inode = held(&self.state)
            .names
            .get(path)
            .cloned()
            .ok_or_else(|| not_found(path))?;
        Ok(Arc::new(SimulatedFile {
            inode,
            state: Arc::clone(&self.state),
        }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = held(&self.state);
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = Inode::default();
        state.names.insert(path.to_owned(), Arc::clone(&inode));
        Ok(Arc::new(SimulatedFile {
            inode,
            state: Arc::clone(&self.state),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = held(&self.state);
        let inode = state.names.remove(from).ok_or_else(|| not_found(from))?;
        state.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        held(&self.state)
            .names
            .remove(path)
            .map(|_| ())
            .ok_or_else(|| not_found(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = held(&self.state);
        let inode = state
            .names
            .get(from)
            .cloned()
            .ok_or_else(|| not_found(from))?;
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = held(&self.state);
        state.folders.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let state = held(&self.state);
        let mut found: BTreeSet<PathBuf> = BTreeSet::new();
        for name in state.names.keys().chain(&state.folders) {
            if name.parent() == Some(path) {
                found.insert(name.clone());
            }
        }
        Ok(found.into_iter().collect())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        if held(&self.state).folders.remove(path) {
            Ok(())
        } else {
            Err(not_found(path))
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut guard = held(&self.state);
        let state = &mut *guard;
        state
            .synced_names
            .retain(|name, _| name.parent() != Some(path));
        for (name, inode) in &state.names {
            if name.parent() == Some(path) {
                state.synced_names.insert(name.clone(), Arc::clone(inode));
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        let state = held(&self.state);
        state.names.contains_key(path) || state.folders.contains(path)
    }

    fn space(&self, _path: &Path) -> io::Result<(u64, u64)> {
        let state = held(&self.state);
        let capacity = state.capacity_bytes.unwrap_or(1 << 40);
        Ok((capacity.saturating_sub(state.used()), capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_only_what_was_synced() {
        let disk = SimulatedDisk::default();
        let (dir, path) = (Path::new("/d"), Path::new("/d/f"));
        let file = disk.create(path).unwrap();
        file.append(b"kept").unwrap();
        file.sync().unwrap();
        disk.sync_dir(dir).unwrap();
        file.append(b"lost").unwrap();
        disk.create(Path::new("/d/unsynced")).unwrap();
        disk.crash();
        assert_eq!(&disk.read(path).unwrap()[..], b"kept");
        assert!(!disk.exists(Path::new("/d/unsynced")));
    }
}
