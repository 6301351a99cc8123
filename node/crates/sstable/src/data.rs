//! Data.db: writing it in checksummed chunks, reading it chunk by chunk.

use crate::compression::{CompressionInfo, CompressionSettings};
use crate::descriptor::{Component, Descriptor};
use crate::error::{Result, SsTableError, corrupt, io_at};
use crate::file::{FileReader, FileWriter, write_whole};
use bytes::{Bytes, BytesMut};
use helenus_rows::codec::CodecError;
use helenus_seams::Disk;
use helenus_types::{Reader, Truncated};
use std::sync::Arc;

/// Chunk length of CRC.db for data that is not compressed.
const PLAIN_CHUNK: usize = 64 * 1024;
/// The most bytes that one row or partition header may take.
const UNFILTERED_LIMIT: usize = 1 << 30;

/// Writes Data.db with CompressionInfo.db or CRC.db, and Digest.crc32.
pub(crate) struct DataWriter {
    out: FileWriter,
    settings: Option<CompressionSettings>,
    chunk: Vec<u8>,
    position: u64,
    offsets: Vec<u64>,
    checksums: Vec<u8>,
    digest: crc32fast::Hasher,
}

/// What was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataSummary {
    /// Length of Data.db.
    pub file_length: u64,
    /// Length before compression.
    pub data_length: u64,
    /// Ratio of the two; −1 when not compressed.
    pub compression_ratio: f64,
}

impl DataWriter {
    /// Creates the file.
    pub(crate) fn create(
        disk: &dyn Disk,
        descriptor: &Descriptor,
        settings: Option<CompressionSettings>,
    ) -> Result<Self> {
        let out = FileWriter::create(disk, descriptor.path(Component::Data))?;
        let mut checksums = Vec::new();
        if settings.is_none() {
            checksums.extend_from_slice(&u32::try_from(PLAIN_CHUNK).unwrap_or(0).to_be_bytes());
        }
        Ok(Self {
            out,
            settings,
            chunk: Vec::new(),
            position: 0,
            offsets: Vec::new(),
            checksums,
            digest: crc32fast::Hasher::new(),
        })
    }

    /// Uncompressed position.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes in the file so far.
    pub(crate) fn file_position(&self) -> u64 {
        self.out.position()
    }

    fn chunk_length(&self) -> usize {
        self.settings
            .as_ref()
            .map_or(PLAIN_CHUNK, |settings| settings.chunk_length)
    }

    /// Appends.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.position += bytes.len() as u64;
        let length = self.chunk_length();
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(length - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == length {
                self.flush_chunk()?;
            }
        }
        Ok(())
    }

    fn flush_chunk(&mut self) -> Result<()> {
        if let Some(settings) = &self.settings {
            let mut stored = settings.compressor.compress(&self.chunk)?;
            if stored.len() >= settings.max_compressed_length {
                stored.clear();
                stored.extend_from_slice(&self.chunk);
                // Only a short last chunk: padded so that its length says that it is not compressed.
                stored.resize(stored.len().max(settings.max_compressed_length), 0);
            }
            let checksum = crc32fast::hash(&stored);
            self.offsets.push(self.out.position());
            stored.extend_from_slice(&checksum.to_be_bytes());
            self.digest.update(&stored);
            self.out.write(&stored)?;
        } else {
            self.checksums
                .extend_from_slice(&crc32fast::hash(&self.chunk).to_be_bytes());
            self.digest.update(&self.chunk);
            self.out.write(&self.chunk)?;
        }
        self.chunk.clear();
        Ok(())
    }

    /// Writes the rest and the files beside.
    pub(crate) fn finish(
        mut self,
        disk: &dyn Disk,
        descriptor: &Descriptor,
    ) -> Result<DataSummary> {
        if !self.chunk.is_empty() {
            self.flush_chunk()?;
        }
        let file_length = self.out.finish()?;
        let mut compression_ratio = -1.0;
        if let Some(settings) = &self.settings {
            let content = settings.encode(self.position, &self.offsets)?;
            write_whole(disk, descriptor.path(Component::CompressionInfo), &content)?;
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let ratio =
                (file_length - 4 * self.offsets.len() as u64) as f64 / self.position.max(1) as f64;
            compression_ratio = ratio;
        } else {
            write_whole(disk, descriptor.path(Component::Crc), &self.checksums)?;
        }
        let digest = self.digest.finalize().to_string();
        write_whole(disk, descriptor.path(Component::Digest), digest.as_bytes())?;
        Ok(DataSummary {
            file_length,
            data_length: self.position,
            compression_ratio,
        })
    }
}

enum Chunks {
    Compressed(CompressionInfo),
    Plain {
        checksums: Option<FileReader>,
        length: usize,
    },
}

/// Data.db, open.
pub(crate) struct DataFile {
    file: FileReader,
    chunks: Chunks,
    length: u64,
}

impl std::fmt::Debug for DataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataFile")
            .field("file", &self.file)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl DataFile {
    /// Opens the file with what says how to read it.
    pub(crate) fn open(disk: &dyn Disk, descriptor: &Descriptor) -> Result<Self> {
        let file = FileReader::open(disk, &descriptor.path(Component::Data))?;
        let info_path = descriptor.path(Component::CompressionInfo);
        if disk.exists(&info_path) {
            let has_max_length = descriptor.version.0[0] != b'm';
            let info = CompressionInfo::open(
                FileReader::open(disk, &info_path)?,
                has_max_length,
                file.length(),
            )?;
            let length = info.data_length;
            return Ok(Self {
                file,
                chunks: Chunks::Compressed(info),
                length,
            });
        }
        let length = file.length();
        let crc_path = descriptor.path(Component::Crc);
        let chunks = if disk.exists(&crc_path) {
            let checksums = FileReader::open(disk, &crc_path)?;
            let head: [u8; 4] = checksums
                .read(0, 4)?
                .as_ref()
                .try_into()
                .unwrap_or_default();
            let chunk_length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(0);
            if chunk_length == 0 || chunk_length > UNFILTERED_LIMIT {
                return Err(corrupt(&crc_path, 0, "the chunk length is impossible"));
            }
            Chunks::Plain {
                checksums: Some(checksums),
                length: chunk_length,
            }
        } else {
            Chunks::Plain {
                checksums: None,
                length: PLAIN_CHUNK,
            }
        };
        Ok(Self {
            file,
            chunks,
            length,
        })
    }

    /// Uncompressed length.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    fn chunk_length(&self) -> usize {
        match &self.chunks {
            Chunks::Compressed(info) => info.chunk_length,
            Chunks::Plain { length, .. } => *length,
        }
    }

    /// A chunk, its checksum verified.
    fn chunk(&self, index: u64) -> Result<Bytes> {
        let path = &self.file.path;
        let chunk_length = self.chunk_length();
        let start = index * chunk_length as u64;
        let expected = usize::try_from(self.length.saturating_sub(start))
            .unwrap_or(usize::MAX)
            .min(chunk_length);
        match &self.chunks {
            Chunks::Compressed(info) => {
                let (offset, length) = info.chunk(index, path)?;
                let stored = self.file.read(offset, length + 4)?;
                let (body, checksum) = stored.split_at(length);
                if crc32fast::hash(body).to_be_bytes() != checksum {
                    return Err(corrupt(
                        path,
                        offset,
                        "the checksum of a chunk does not match",
                    ));
                }
                if length >= info.max_compressed_length {
                    return Ok(stored.slice(..expected.min(length)));
                }
                let data = info
                    .compressor
                    .decompress(body, chunk_length)
                    .filter(|data| data.len() == expected);
                Ok(Bytes::from(data.ok_or_else(|| {
                    corrupt(path, offset, "a chunk cannot be decompressed")
                })?))
            }
            Chunks::Plain { checksums, .. } => {
                let data = self.file.read(start, expected)?;
                if let Some(checksums) = checksums {
                    let checksum = checksums.read(4 + index * 4, 4)?;
                    if crc32fast::hash(&data).to_be_bytes() != checksum.as_ref() {
                        return Err(corrupt(
                            path,
                            start,
                            "the checksum of a chunk does not match",
                        ));
                    }
                }
                Ok(data)
            }
        }
    }
}

/// A position in a data file. Keeps the bytes around it.
#[derive(Debug, Clone)]
pub(crate) struct DataCursor {
    data: Arc<DataFile>,
    window: Bytes,
    window_start: u64,
    position: u64,
}

impl DataCursor {
    /// A cursor at an uncompressed position.
    pub(crate) fn new(data: Arc<DataFile>, position: u64) -> Self {
        Self {
            data,
            window: Bytes::new(),
            window_start: 0,
            position,
        }
    }

    /// Where it is.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Goes elsewhere.
    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Whether nothing follows.
    pub(crate) fn is_at_end(&self) -> bool {
        self.position >= self.data.length
    }

    /// An error about what stands here.
    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> SsTableError {
        corrupt(&self.data.file.path, self.position, reason)
    }

    /// The bytes from here on, at least `wanted` unless the file ends.
    fn bytes(&mut self, wanted: usize) -> Result<Bytes> {
        let wanted_end = (self.position + wanted as u64).min(self.data.length);
        let window_end = self.window_start + self.window.len() as u64;
        if self.position < self.window_start || self.position > window_end || self.window.is_empty()
        {
            let index = self.position / self.data.chunk_length() as u64;
            self.window = if self.position < self.data.length {
                self.data.chunk(index)?
            } else {
                Bytes::new()
            };
            self.window_start = index * self.data.chunk_length() as u64;
        }
        while self.window_start + (self.window.len() as u64) < wanted_end {
            let end = self.window_start + self.window.len() as u64;
            let next = self.data.chunk(end / self.data.chunk_length() as u64)?;
            let skipped = usize::try_from(self.position - self.window_start)
                .unwrap_or(0)
                .min(self.window.len());
            if skipped == self.window.len() {
                self.window = next;
                self.window_start = end;
            } else {
                let mut joined = BytesMut::with_capacity(self.window.len() - skipped + next.len());
                joined.extend_from_slice(&self.window[skipped..]);
                joined.extend_from_slice(&next);
                self.window_start += skipped as u64;
                self.window = joined.freeze();
            }
        }
        let offset = usize::try_from(self.position - self.window_start)
            .unwrap_or(0)
            .min(self.window.len());
        Ok(self.window.slice(offset..))
    }

    /// Decodes what stands here and moves behind it.
    pub(crate) fn decode<T>(
        &mut self,
        mut decode: impl FnMut(&mut Reader) -> std::result::Result<T, CodecError>,
    ) -> Result<T> {
        let mut wanted = 1;
        loop {
            let bytes = self.bytes(wanted)?;
            let available = bytes.len();
            let mut reader = Reader::new(bytes);
            match decode(&mut reader) {
                Ok(value) => {
                    self.position += reader.position() as u64;
                    return Ok(value);
                }
                Err(CodecError::Truncated(Truncated { .. }))
                    if self.position + (available as u64) < self.data.length
                        && available < UNFILTERED_LIMIT =>
                {
                    wanted = (available + 1)
                        .max(available.saturating_mul(2))
                        .min(UNFILTERED_LIMIT);
                }
                Err(error) => return Err(self.corrupt(error.to_string())),
            }
        }
    }
}

/// Checks the whole file against Digest.crc32.
pub fn verify_digest(disk: &dyn Disk, descriptor: &Descriptor) -> Result<()> {
    let path = descriptor.path(Component::Digest);
    let expected = disk.read(&path).map_err(io_at(&path))?;
    let expected = std::str::from_utf8(&expected)
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok());
    let file = FileReader::open(disk, &descriptor.path(Component::Data))?;
    let mut digest = crc32fast::Hasher::new();
    let mut at = 0;
    while at < file.length() {
        let part = file.read_up_to(at, PLAIN_CHUNK)?;
        digest.update(&part);
        at += part.len() as u64;
    }
    if Some(digest.finalize()) == expected {
        Ok(())
    } else {
        Err(corrupt(&file.path, 0, "the file does not match its digest"))
    }
}
