//! Files: the operating system's, or simulated ones that lose what was not synced.

mod real;
mod simulated;

pub use real::RealDisk;
pub use simulated::SimulatedDisk;

use bytes::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system. Calls block; background threads make the slow ones.
pub trait Disk: Send + Sync {
    /// Opens an existing file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file for appending; an existing one is an error.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file over any that is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Hard-links a file (snapshots).
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates a folder and its parents; one that exists is fine.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The entries of a folder, sorted; an absent folder is empty.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes names created, renamed or removed in a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Whether the path names a file or folder.
    fn exists(&self, path: &Path) -> bool;
    /// Bytes free for us on the file system of `path`, and its size.
    fn space(&self, path: &Path) -> io::Result<(u64, u64)>;

    /// A whole file.
    fn read(&self, path: &Path) -> io::Result<Bytes> {
        let file = self.open(path)?;
        let length = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut buffer = vec![0; length];
        file.read_exact_at(&mut buffer, 0)?;
        Ok(Bytes::from(buffer))
    }

    /// Writes a whole small file durably: temporary name, sync, rename, sync of the folder.
    fn write_atomically(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        if self.exists(&temporary) {
            self.remove(&temporary)?;
        }
        let file = self.create(&temporary)?;
        file.append(content)?;
        file.sync()?;
        self.rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |parent| self.sync_dir(parent))
    }
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it holds no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads at an offset; fewer bytes than asked only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Appends all of `bytes`; they survive a killed process, not a lost machine.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended so far durable.
    fn sync(&self) -> io::Result<()>;

    /// Fills `buffer` from an offset, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let read = self.read_at(&mut buffer[done..], offset + done as u64)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += read;
        }
        Ok(())
    }
}
