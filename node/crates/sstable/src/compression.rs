//! Compressors and CompressionInfo.db.
//!
//! Sources: Cassandra 5.0 `CompressionMetadata`, `LZ4Compressor` and its siblings.

use crate::error::{Result, SsTableError, corrupt};
use crate::file::FileReader;
use bytes::{BufMut, Bytes};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use helenus_types::Reader;
use std::collections::BTreeMap;
use std::path::Path;

/// Chunks of more than this are refused.
const MAX_CHUNK_LENGTH: usize = 64 * 1024 * 1024;
/// Up to how many chunks the table of offsets is kept in memory; larger tables are read from the file.
const OFFSETS_IN_MEMORY: u64 = 1 << 16;
/// How much of the file is read to find the header.
const HEADER_LIMIT: usize = 64 * 1024;

/// Options that are not the compressor's own.
const COMMON_OPTIONS: [&str; 6] = [
    "class",
    "sstable_compression",
    "chunk_length_in_kb",
    "chunk_length_kb",
    "enabled",
    "min_compress_ratio",
];

/// How chunks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// LZ4 blocks behind their uncompressed length (little-endian).
    Lz4,
    /// Snappy blocks.
    Snappy,
    /// zlib streams.
    Deflate,
    /// Zstandard frames.
    Zstd {
        /// Level.
        level: i32,
    },
    /// Not compressed, but in checksummed chunks.
    Noop,
}

impl Compressor {
    /// The compressor of a class (with or without package) and its options.
    pub fn of_class(class: &str, options: &BTreeMap<String, String>) -> Option<Self> {
        Some(match class.rsplit('.').next().unwrap_or(class) {
            "LZ4Compressor" => Self::Lz4,
            "SnappyCompressor" => Self::Snappy,
            "DeflateCompressor" => Self::Deflate,
            "ZstdCompressor" => Self::Zstd {
                level: options
                    .get("compression_level")
                    .and_then(|level| level.parse().ok())
                    .unwrap_or(3),
            },
            "NoopCompressor" => Self::Noop,
            _ => return None,
        })
    }

    fn class(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4Compressor",
            Self::Snappy => "SnappyCompressor",
            Self::Deflate => "DeflateCompressor",
            Self::Zstd { .. } => "ZstdCompressor",
            Self::Noop => "NoopCompressor",
        }
    }

    /// Compresses a chunk.
    pub fn compress(self, chunk: &[u8]) -> Result<Vec<u8>> {
        let failed = |error: &dyn std::fmt::Display| {
            SsTableError::Invalid(format!("compress a chunk: {error}"))
        };
        match self {
            Self::Lz4 => {
                let length = u32::try_from(chunk.len()).map_err(|error| failed(&error))?;
                let mut out = length.to_le_bytes().to_vec();
                let start = out.len();
                out.resize(
                    start + lz4_flex::block::get_maximum_output_size(chunk.len()),
                    0,
                );
                let written = lz4_flex::block::compress_into(chunk, &mut out[start..])
                    .map_err(|error| failed(&error))?;
                out.truncate(start + written);
                Ok(out)
            }
            Self::Snappy => snap::raw::Encoder::new()
                .compress_vec(chunk)
                .map_err(|error| failed(&error)),
            Self::Deflate => {
                let mut out = Vec::with_capacity(chunk.len() + 64);
                let mut stream = Compress::new(Compression::default(), true);
                loop {
                    let consumed = usize::try_from(stream.total_in()).unwrap_or(chunk.len());
                    let status = stream
                        .compress_vec(&chunk[consumed..], &mut out, FlushCompress::Finish)
                        .map_err(|error| failed(&error))?;
                    if status == flate2::Status::StreamEnd {
                        return Ok(out);
                    }
                    out.reserve(out.capacity().max(64));
                }
            }
            Self::Zstd { level } => {
                zstd::bulk::compress(chunk, level).map_err(|error| failed(&error))
            }
            Self::Noop => Ok(chunk.to_vec()),
        }
    }

    /// Decompresses a chunk of which at most `limit` bytes come out; `None` when it is broken.
    pub fn decompress(self, chunk: &[u8], limit: usize) -> Option<Vec<u8>> {
        match self {
            Self::Lz4 => {
                let (head, body) = chunk.split_first_chunk::<4>()?;
                let length = usize::try_from(u32::from_le_bytes(*head))
                    .ok()
                    .filter(|length| *length <= limit)?;
                let mut out = vec![0; length];
                let written = lz4_flex::block::decompress_into(body, &mut out).ok()?;
                (written == length).then_some(out)
            }
            Self::Snappy => {
                let length = snap::raw::decompress_len(chunk)
                    .ok()
                    .filter(|length| *length <= limit)?;
                let out = snap::raw::Decoder::new().decompress_vec(chunk).ok()?;
                (out.len() == length).then_some(out)
            }
            Self::Deflate => {
                let mut out = Vec::with_capacity(limit);
                let mut stream = Decompress::new(true);
                stream
                    .decompress_vec(chunk, &mut out, FlushDecompress::Finish)
                    .ok()?;
                Some(out)
            }
            Self::Zstd { .. } => zstd::bulk::decompress(chunk, limit).ok(),
            Self::Noop => (chunk.len() <= limit).then(|| chunk.to_vec()),
        }
    }
}

/// How a table compresses: its `compression` option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressionSettings {
    /// How.
    pub compressor: Compressor,
    /// Options of the compressor, written to the file.
    pub options: Vec<(String, String)>,
    /// Uncompressed length of every chunk but the last.
    pub chunk_length: usize,
    /// From this compressed length on a chunk is stored as it is.
    pub max_compressed_length: usize,
}

impl CompressionSettings {
    /// The settings of a table's `compression` option; `None` when it is off.
    pub fn of_table(options: &BTreeMap<String, String>) -> Result<Option<Self>> {
        let invalid = |what: String| SsTableError::Invalid(what);
        if options
            .get("enabled")
            .is_some_and(|enabled| enabled == "false")
        {
            return Ok(None);
        }
        let Some(class) = options
            .get("class")
            .or_else(|| options.get("sstable_compression"))
        else {
            return Ok(None);
        };
        if class.is_empty() {
            return Ok(None);
        }
        let compressor = Compressor::of_class(class, options)
            .ok_or_else(|| invalid(format!("compressor {class} is not supported")))?;
        let kilobytes = options
            .get("chunk_length_in_kb")
            .or_else(|| options.get("chunk_length_kb"));
        let kilobytes = kilobytes.map_or(Ok(16), |text| text.parse::<usize>());
        let chunk_length = kilobytes.ok().and_then(|count| count.checked_mul(1024));
        let chunk_length = chunk_length
            .filter(|length| length.is_power_of_two() && *length <= MAX_CHUNK_LENGTH)
            .ok_or_else(|| invalid("chunk_length_in_kb is not a power of two".into()))?;
        let max_compressed_length = max_compressed_length(options, chunk_length)?;
        let others = options.iter().filter(|(key, _)| {
            !COMMON_OPTIONS.contains(&key.as_str()) && *key != "crc_check_chance"
        });
        let options = others
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok(Some(Self {
            compressor,
            options,
            chunk_length,
            max_compressed_length,
        }))
    }

    /// The content of CompressionInfo.db.
    pub fn encode(&self, data_length: u64, offsets: &[u64]) -> Result<Vec<u8>> {
        let too_large = || SsTableError::Invalid("too many chunks".into());
        let mut out = Vec::with_capacity(64 + offsets.len() * 8);
        put_utf(self.compressor.class(), &mut out);
        out.put_u32(u32::try_from(self.options.len()).map_err(|_| too_large())?);
        for (key, value) in &self.options {
            put_utf(key, &mut out);
            put_utf(value, &mut out);
        }
        out.put_u32(u32::try_from(self.chunk_length).map_err(|_| too_large())?);
        out.put_i32(i32::try_from(self.max_compressed_length).unwrap_or(i32::MAX));
        out.put_u64(data_length);
        out.put_u32(u32::try_from(offsets.len()).map_err(|_| too_large())?);
        for offset in offsets {
            out.put_u64(*offset);
        }
        Ok(out)
    }
}

fn max_compressed_length(options: &BTreeMap<String, String>, chunk_length: usize) -> Result<usize> {
    let ratio = options
        .get("min_compress_ratio")
        .map_or(Ok(0.0), |text| text.parse::<f64>());
    let ratio =
        ratio.map_err(|_| SsTableError::Invalid("min_compress_ratio is not a number".into()))?;
    if ratio <= 0.0 {
        return Ok(usize::try_from(i32::MAX).unwrap_or(usize::MAX));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a chunk length divided by a ratio of at least 1 fits"
    )]
    let length = (chunk_length as f64 / ratio.max(1.0)).ceil() as usize;
    Ok(length)
}

/// Appends text as Java's `writeUTF` does for text without zeros and beyond ASCII.
pub(crate) fn put_utf(text: &str, out: &mut Vec<u8>) {
    out.put_u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn utf(reader: &mut Reader) -> Option<String> {
    String::from_utf8(reader.short_bytes().ok()?.into()).ok()
}

enum Offsets {
    Memory(Vec<u64>),
    File { reader: FileReader, start: u64 },
}

/// CompressionInfo.db, open.
pub struct CompressionInfo {
    /// How chunks are compressed.
    pub compressor: Compressor,
    /// Uncompressed length of every chunk but the last.
    pub chunk_length: usize,
    /// From this length on a stored chunk is not compressed.
    pub max_compressed_length: usize,
    /// Uncompressed length of the data file.
    pub data_length: u64,
    /// Count of chunks.
    pub chunks: u64,
    offsets: Offsets,
    data_file_length: u64,
}

impl std::fmt::Debug for CompressionInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompressionInfo")
            .field("compressor", &self.compressor)
            .field("chunk_length", &self.chunk_length)
            .field("data_length", &self.data_length)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

struct Header {
    class: String,
    options: BTreeMap<String, String>,
    chunk_length: u32,
    max_compressed_length: i32,
    data_length: u64,
    chunks: u64,
    length: u64,
}

fn parse_header(bytes: Bytes, has_max_length: bool) -> Option<Header> {
    let mut reader = Reader::new(bytes);
    let class = utf(&mut reader)?;
    let mut options = BTreeMap::new();
    for _ in 0..reader.u32().ok()? {
        options.insert(utf(&mut reader)?, utf(&mut reader)?);
    }
    let chunk_length = reader.u32().ok()?;
    let max_compressed_length = if has_max_length {
        reader.i32().ok()?
    } else {
        i32::MAX
    };
    let data_length = reader.u64().ok()?;
    let chunks = u64::from(reader.u32().ok()?);
    let length = reader.position() as u64;
    Some(Header {
        class,
        options,
        chunk_length,
        max_compressed_length,
        data_length,
        chunks,
        length,
    })
}

impl CompressionInfo {
    /// Reads the header; `has_max_length` from version `na` on.
    pub fn open(file: FileReader, has_max_length: bool, data_file_length: u64) -> Result<Self> {
        let path = file.path.clone();
        let broken = |what: &str| corrupt(&path, 0, what);
        let header = parse_header(file.read_up_to(0, HEADER_LIMIT)?, has_max_length)
            .ok_or_else(|| broken("the header is cut off"))?;
        let compressor = Compressor::of_class(&header.class, &header.options).ok_or_else(|| {
            SsTableError::Unsupported {
                path: path.to_path_buf(),
                what: format!("compressor {}", header.class),
            }
        })?;
        let chunk_length = usize::try_from(header.chunk_length).unwrap_or(usize::MAX);
        if !chunk_length.is_power_of_two() || chunk_length > MAX_CHUNK_LENGTH {
            return Err(broken("the chunk length is not a power of two"));
        }
        // Compaction in Cassandra ends a file with an empty chunk.
        if header.chunks < header.data_length.div_ceil(chunk_length as u64)
            || file.length() < header.length + header.chunks * 8
        {
            return Err(broken("the count of chunks does not fit the lengths"));
        }
        let offsets = if header.chunks <= OFFSETS_IN_MEMORY {
            let count = usize::try_from(header.chunks * 8).unwrap_or(0);
            let bytes = file.read(header.length, count)?;
            Offsets::Memory(bytes.chunks_exact(8).map(be_u64).collect())
        } else {
            Offsets::File {
                reader: file,
                start: header.length,
            }
        };
        Ok(Self {
            compressor,
            chunk_length,
            max_compressed_length: usize::try_from(header.max_compressed_length)
                .unwrap_or(usize::MAX),
            data_length: header.data_length,
            chunks: header.chunks,
            offsets,
            data_file_length,
        })
    }

    /// Where a chunk stands in the data file: offset and length without its checksum.
    pub fn chunk(&self, index: u64, path: &Path) -> Result<(u64, usize)> {
        let (start, next) = match &self.offsets {
            Offsets::Memory(all) => {
                let at = usize::try_from(index).unwrap_or(usize::MAX);
                (all.get(at).copied(), all.get(at.saturating_add(1)).copied())
            }
            Offsets::File { reader, start } => {
                let bytes = reader.read_up_to(
                    start + index * 8,
                    if index + 1 < self.chunks { 16 } else { 8 },
                )?;
                let mut words = bytes.chunks_exact(8).map(be_u64);
                (words.next(), words.next())
            }
        };
        let start = start.ok_or_else(|| corrupt(path, 0, format!("there is no chunk {index}")))?;
        let end = next.unwrap_or(self.data_file_length);
        let length = end
            .checked_sub(start)
            .and_then(|length| length.checked_sub(4));
        let length = length.and_then(|length| usize::try_from(length).ok());
        length
            .filter(|length| {
                *length <= 2 * self.chunk_length + 1024 && end <= self.data_file_length
            })
            .map(|length| (start, length))
            .ok_or_else(|| corrupt(path, start, "a chunk has an impossible length"))
    }
}

fn be_u64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compressor_round_trips_and_refuses_rubbish() {
        let data: Vec<u8> = (0..16_384_u32)
            .flat_map(|at| (at / 7 % 251).to_be_bytes())
            .take(16_384)
            .collect();
        for compressor in [
            Compressor::Lz4,
            Compressor::Snappy,
            Compressor::Deflate,
            Compressor::Zstd { level: 3 },
            Compressor::Noop,
        ] {
            for input in [&data[..], &data[..1], &data[..0]] {
                let packed = compressor.compress(input).unwrap();
                assert_eq!(
                    compressor.decompress(&packed, 16_384).as_deref(),
                    Some(input),
                    "{compressor:?}"
                );
                for cut in 0..packed.len().min(64) {
                    let _unused = compressor.decompress(&packed[cut..], 16_384);
                }
            }
        }
    }
}
