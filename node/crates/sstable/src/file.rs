//! Sequential writing and random reading of small-record files: indexes, metadata.

use crate::error::{Result, corrupt, io_at};
use crate::trie::PAGE_SIZE;
use bytes::Bytes;
use helenus_seams::{Disk, DiskFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much is gathered before it goes to the file.
const BUFFER: usize = 64 * 1024;

/// A file that is written from start to end.
pub(crate) struct FileWriter {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    flushed: u64,
}

impl FileWriter {
    /// Creates the file.
    pub(crate) fn create(disk: &dyn Disk, path: PathBuf) -> Result<Self> {
        let file = disk.create(&path).map_err(io_at(&path))?;
        Ok(Self {
            path,
            file,
            buffer: Vec::with_capacity(BUFFER),
            flushed: 0,
        })
    }

    /// Bytes written so far.
    pub(crate) fn position(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Bytes until the next page starts; a whole page at a page's start.
    pub(crate) fn bytes_left_in_page(&self) -> u64 {
        PAGE_SIZE - self.position() % PAGE_SIZE
    }

    /// Appends.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Appends zeros up to the next page's start.
    pub(crate) fn pad_to_page(&mut self) -> Result<()> {
        let left = self.bytes_left_in_page() % PAGE_SIZE;
        let count = usize::try_from(left).unwrap_or(0);
        self.write(&vec![0; count])
    }

    fn flush(&mut self) -> Result<()> {
        self.file.append(&self.buffer).map_err(io_at(&self.path))?;
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes everything out and syncs; the file's length.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.file.sync().map_err(io_at(&self.path))?;
        Ok(self.flushed)
    }
}

/// Writes a whole small file and syncs it.
pub(crate) fn write_whole(disk: &dyn Disk, path: PathBuf, content: &[u8]) -> Result<u64> {
    let mut writer = FileWriter::create(disk, path)?;
    writer.write(content)?;
    writer.finish()
}

/// A file that is read at random.
#[derive(Clone)]
pub struct FileReader {
    /// Where it is, for errors.
    pub path: Arc<Path>,
    file: Arc<dyn DiskFile>,
    length: u64,
}

impl FileReader {
    /// Opens the file.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let file = disk.open(path).map_err(io_at(path))?;
        let length = file.len().map_err(io_at(path))?;
        Ok(Self {
            path: path.into(),
            file,
            length,
        })
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Up to `count` bytes at `offset`, fewer only at the end.
    pub fn read_up_to(&self, offset: u64, count: usize) -> Result<Bytes> {
        let left = self.length.saturating_sub(offset);
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut buffer = vec![0; count];
        self.file
            .read_exact_at(&mut buffer, offset)
            .map_err(io_at(&self.path))?;
        Ok(Bytes::from(buffer))
    }

    /// Exactly `count` bytes at `offset`.
    pub fn read(&self, offset: u64, count: usize) -> Result<Bytes> {
        let bytes = self.read_up_to(offset, count)?;
        if bytes.len() < count {
            return Err(corrupt(
                &self.path,
                offset,
                format!("{count} bytes wanted, the file ends after {}", bytes.len()),
            ));
        }
        Ok(bytes)
    }
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader")
            .field("path", &self.path)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
