//! Statistics.db: what an SSTable knows of itself.
//!
//! Sources: Cassandra 5.0 `MetadataSerializer`, `StatsMetadata`, `ValidationMetadata`,
//! `CompactionMetadata`, `MetadataCollector`.

use crate::compression::{put_utf, utf};
use crate::descriptor::FileVersion;
use crate::error::{Result, corrupt};
use crate::histogram::{EstimatedHistogram, TombstoneHistogram};
use bytes::{BufMut, Bytes};
use helenus_rows::codec::clustering::{decode_bound, encode_bound};
use helenus_rows::codec::header::HeaderComponent;
use helenus_rows::codec::{CodecError, deletion};
use helenus_rows::{ClusteringBound, Slice};
use helenus_schema::{ColumnKind, TableBuilder, TableId, TableMetadata};
use helenus_types::java_name::parse_key_type;
use helenus_types::{CqlType, NowInSeconds, Reader, TimestampMicros, vint};
use std::path::Path;
use uuid::Uuid;

/// The partitioner that this node has.
pub const MURMUR3_PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// No repair has covered the SSTable.
pub const UNREPAIRED: i64 = 0;

const VALIDATION: u32 = 0;
const COMPACTION: u32 = 1;
const STATS: u32 = 2;
const HEADER: u32 = 3;

/// A place in the commit log of the node that wrote the SSTable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitLogPosition {
    /// Segment.
    pub segment: i64,
    /// Byte in the segment.
    pub position: i32,
}

impl CommitLogPosition {
    /// No place.
    pub const NONE: Self = Self {
        segment: -1,
        position: 0,
    };

    fn encode(self, out: &mut Vec<u8>) {
        out.put_i64(self.segment);
        out.put_i32(self.position);
    }

    fn decode(reader: &mut Reader) -> Result<Self, CodecError> {
        Ok(Self {
            segment: reader.i64()?,
            position: reader.i32()?,
        })
    }
}

/// The `STATS` component.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "the names are Cassandra's, as sstablemetadata prints them"
)]
pub struct Stats {
    pub partition_sizes: EstimatedHistogram,
    pub cells_per_partition: EstimatedHistogram,
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    pub min_timestamp: TimestampMicros,
    pub max_timestamp: TimestampMicros,
    pub min_local_deletion_time: NowInSeconds,
    pub max_local_deletion_time: NowInSeconds,
    pub min_ttl: i32,
    pub max_ttl: i32,
    pub compression_ratio: f64,
    pub tombstone_times: TombstoneHistogram,
    pub level: u32,
    pub repaired_at: i64,
    pub clustering_types: Vec<String>,
    pub covered: Slice,
    pub has_legacy_counter_shards: bool,
    pub total_columns: i64,
    pub total_rows: i64,
    pub pending_repair: Option<Uuid>,
    pub is_transient: bool,
    pub originating_host_id: Option<Uuid>,
    pub has_partition_deletions: bool,
    pub first_key: Bytes,
    pub last_key: Bytes,
    pub token_space_coverage: f64,
}

/// All of Statistics.db.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Class of the partitioner.
    pub partitioner: String,
    /// False-positive rate of the bloom filter.
    pub bloom_filter_fp_chance: f64,
    /// Estimator of the count of keys, as stream-lib writes it.
    pub cardinality: Bytes,
    /// Statistics.
    pub stats: Stats,
    /// Columns and types of the rows.
    pub header: HeaderComponent,
}

fn is_at_least(version: FileVersion, first: [u8; 2]) -> bool {
    version.0[0] == b'd' || version.0 >= first
}

fn fixed_lengths(types: &[String]) -> Result<Vec<Option<usize>>, CodecError> {
    types
        .iter()
        .map(|name| {
            let parsed = CqlType::from_java_name(name);
            parsed
                .map(|parsed| parsed.fixed_length())
                .map_err(|_| CodecError::Invalid("a type name cannot be read"))
        })
        .collect()
}

impl Stats {
    fn encode(&self, version: FileVersion, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let modern = version.rows().unsigned_deletion_times;
        self.partition_sizes.encode(out);
        self.cells_per_partition.encode(out);
        let bounds = |take: fn(&(CommitLogPosition, CommitLogPosition)) -> CommitLogPosition| {
            self.commit_log_intervals.iter().map(take)
        };
        bounds(|interval| interval.1)
            .max()
            .unwrap_or(CommitLogPosition::NONE)
            .encode(out);
        out.put_i64(self.min_timestamp);
        out.put_i64(self.max_timestamp);
        for seconds in [self.min_local_deletion_time, self.max_local_deletion_time] {
            if modern {
                out.put_u32(deletion::to_unsigned(seconds));
            } else {
                out.put_i32(deletion::to_signed(seconds));
            }
        }
        out.put_i32(self.min_ttl);
        out.put_i32(self.max_ttl);
        out.put_f64(self.compression_ratio);
        self.tombstone_times.encode(modern, out);
        out.put_u32(self.level);
        out.put_i64(self.repaired_at);
        if modern {
            self.encode_covered(out)?;
        } else {
            encode_legacy_bounds(&self.covered, out)?;
        }
        out.put_u8(u8::from(self.has_legacy_counter_shards));
        out.put_i64(self.total_columns);
        out.put_i64(self.total_rows);
        bounds(|interval| interval.0)
            .min()
            .unwrap_or(CommitLogPosition::NONE)
            .encode(out);
        out.put_u32(u32::try_from(self.commit_log_intervals.len()).unwrap_or(0));
        for (start, end) in &self.commit_log_intervals {
            start.encode(out);
            end.encode(out);
        }
        put_optional_uuid(self.pending_repair, out);
        out.put_u8(u8::from(self.is_transient));
        put_optional_uuid(self.originating_host_id, out);
        if modern {
            out.put_u8(u8::from(self.has_partition_deletions));
            for key in [&self.first_key, &self.last_key] {
                vint::write_unsigned(out, key.len() as u64);
                out.put_slice(key);
            }
            out.put_f64(self.token_space_coverage);
        }
        Ok(())
    }

    fn encode_covered(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        vint::write_unsigned(out, self.clustering_types.len() as u64);
        for name in &self.clustering_types {
            vint::write_unsigned(out, name.len() as u64);
            out.put_slice(name.as_bytes());
        }
        let lengths = fixed_lengths(&self.clustering_types)?;
        encode_bound(&self.covered.start, &lengths, out)?;
        encode_bound(&self.covered.end, &lengths, out)
    }

    fn decode(reader: &mut Reader, version: FileVersion) -> Result<Self, CodecError> {
        let modern = version.rows().unsigned_deletion_times;
        let checked = is_at_least(version, *b"na");
        let partition_sizes = EstimatedHistogram::decode(reader)?;
        let cells_per_partition = EstimatedHistogram::decode(reader)?;
        let upper = CommitLogPosition::decode(reader)?;
        let min_timestamp = reader.i64()?;
        let max_timestamp = reader.i64()?;
        let min_local_deletion_time = decode_seconds(reader, modern)?;
        let max_local_deletion_time = decode_seconds(reader, modern)?;
        let min_ttl = reader.i32()?;
        let max_ttl = reader.i32()?;
        let compression_ratio = f64::from_bits(reader.u64()?);
        let tombstone_times = TombstoneHistogram::decode(reader, modern)?;
        let level = reader.u32()?;
        let repaired_at = reader.i64()?;
        let (clustering_types, covered) = if modern {
            decode_covered(reader)?
        } else {
            (
                Vec::new(),
                decode_legacy_bounds(reader, is_at_least(version, *b"md"))?,
            )
        };
        let has_legacy_counter_shards = reader.u8()? != 0;
        let total_columns = reader.i64()?;
        let total_rows = reader.i64()?;
        let commit_log_intervals = decode_intervals(reader, version, upper)?;
        let pending_repair = decode_uuid_if(checked, reader)?;
        // Builds before 4.0 wrote `na` without this flag.
        let is_transient = checked && !reader.is_empty() && reader.u8()? != 0;
        let has_host = is_at_least(version, *b"nb") || version.0 == *b"me";
        let originating_host_id = decode_uuid_if(has_host, reader)?;
        let mut stats = Self {
            partition_sizes,
            cells_per_partition,
            commit_log_intervals,
            min_timestamp,
            max_timestamp,
            min_local_deletion_time,
            max_local_deletion_time,
            min_ttl,
            max_ttl,
            compression_ratio,
            tombstone_times,
            level,
            repaired_at,
            clustering_types,
            covered,
            has_legacy_counter_shards,
            total_columns,
            total_rows,
            pending_repair,
            is_transient,
            originating_host_id,
            has_partition_deletions: true,
            first_key: Bytes::new(),
            last_key: Bytes::new(),
            token_space_coverage: f64::NAN,
        };
        if modern {
            stats.has_partition_deletions = reader.u8()? != 0;
            stats.first_key = reader.vint_bytes()?;
            stats.last_key = reader.vint_bytes()?;
            stats.token_space_coverage = f64::from_bits(reader.u64()?);
        }
        Ok(stats)
    }
}

fn put_optional_uuid(uuid: Option<Uuid>, out: &mut Vec<u8>) {
    out.put_u8(u8::from(uuid.is_some()));
    if let Some(uuid) = uuid {
        out.put_slice(uuid.as_bytes());
    }
}

/// `None` where the version has no such field.
fn decode_uuid_if(written: bool, reader: &mut Reader) -> Result<Option<Uuid>, CodecError> {
    Ok(if written && reader.u8()? != 0 {
        Some(Uuid::from_bytes(reader.array()?))
    } else {
        None
    })
}

fn decode_seconds(reader: &mut Reader, modern: bool) -> Result<NowInSeconds, CodecError> {
    let raw = reader.u32()?;
    Ok(if modern {
        deletion::from_unsigned(raw)
    } else {
        deletion::from_signed(raw.cast_signed())
    })
}

/// Older versions write one interval, or only its upper end.
fn decode_intervals(
    reader: &mut Reader,
    version: FileVersion,
    upper: CommitLogPosition,
) -> Result<Vec<(CommitLogPosition, CommitLogPosition)>, CodecError> {
    let lower = if is_at_least(version, *b"mb") {
        CommitLogPosition::decode(reader)?
    } else {
        CommitLogPosition::NONE
    };
    if !is_at_least(version, *b"mc") {
        return Ok(vec![(lower, upper)]);
    }
    let mut intervals = Vec::new();
    for _ in 0..reader.u32()? {
        intervals.push((
            CommitLogPosition::decode(reader)?,
            CommitLogPosition::decode(reader)?,
        ));
    }
    Ok(intervals)
}

fn encode_legacy_bounds(covered: &Slice, out: &mut Vec<u8>) -> Result<(), CodecError> {
    for bound in [&covered.start, &covered.end] {
        let values: Vec<&Bytes> = bound.values.iter().map_while(Option::as_ref).collect();
        out.put_u32(u32::try_from(values.len()).unwrap_or(0));
        for value in values {
            let length = u16::try_from(value.len());
            out.put_u16(length.map_err(|_| {
                CodecError::Invalid("a clustering value is longer than 65535 bytes")
            })?);
            out.put_slice(value);
        }
    }
    Ok(())
}

fn decode_legacy_bounds(reader: &mut Reader, accurate: bool) -> Result<Slice, CodecError> {
    let mut covered = Slice::all();
    for bound in [&mut covered.start, &mut covered.end] {
        for _ in 0..reader.u32()? {
            let value = reader.short_bytes()?;
            if accurate {
                bound.values.push(Some(value));
            }
        }
    }
    Ok(covered)
}

fn decode_covered(reader: &mut Reader) -> Result<(Vec<String>, Slice), CodecError> {
    let mut types = Vec::new();
    for _ in 0..reader.vint_length()? {
        let name = String::from_utf8(reader.vint_bytes()?.into());
        types.push(name.map_err(|_| CodecError::Invalid("a type name is not UTF-8"))?);
    }
    let lengths = fixed_lengths(&types)?;
    let bound = |reader: &mut Reader| -> Result<ClusteringBound, CodecError> {
        decode_bound(reader, &lengths)
    };
    let start = bound(reader)?;
    let end = bound(reader)?;
    if start.kind.is_end() || end.kind.is_start() {
        return Err(CodecError::Invalid(
            "the covered slice has bounds of the wrong kind",
        ));
    }
    Ok((types, Slice { start, end }))
}

impl Statistics {
    /// The file's content (version `na` and later).
    pub fn encode(&self, version: FileVersion) -> Result<Vec<u8>> {
        let mut validation = Vec::new();
        put_utf(&self.partitioner, &mut validation);
        validation.put_f64(self.bloom_filter_fp_chance);
        let mut compaction = Vec::new();
        compaction.put_u32(u32::try_from(self.cardinality.len()).unwrap_or(0));
        compaction.put_slice(&self.cardinality);
        let mut stats = Vec::new();
        self.stats.encode(version, &mut stats)?;
        let mut header = Vec::new();
        self.header.encode(&mut header);
        let components = [
            (VALIDATION, validation),
            (COMPACTION, compaction),
            (STATS, stats),
            (HEADER, header),
        ];

        let mut out = Vec::new();
        out.put_u32(4);
        out.put_u32(crc32fast::hash(&4_u32.to_be_bytes()));
        let mut contents = 4_u32.to_be_bytes().to_vec();
        let mut position = 4 + 8 * components.len() + 8;
        for (ordinal, component) in &components {
            contents.put_u32(*ordinal);
            contents.put_u32(u32::try_from(position).unwrap_or(u32::MAX));
            position += component.len() + 4;
        }
        out.put_slice(&contents[4..]);
        out.put_u32(crc32fast::hash(&contents));
        for (_, component) in &components {
            out.put_slice(component);
            out.put_u32(crc32fast::hash(component));
        }
        Ok(out)
    }

    /// Reads a file's content.
    pub fn decode(content: &Bytes, version: FileVersion, path: &Path) -> Result<Self> {
        let checked = is_at_least(version, *b"na");
        let broken = |offset: usize, reason: &str| corrupt(path, offset as u64, reason);
        let toc = component_positions(content, checked, path)?;
        let component = |ordinal: u32| -> Result<(usize, Reader)> {
            let at = toc.iter().position(|entry| entry.0 == ordinal);
            let at = at.ok_or_else(|| broken(0, "a component of the statistics is missing"))?;
            let start = toc[at].1;
            let end = toc.get(at + 1).map_or(content.len(), |next| next.1);
            let body_end = end
                .checked_sub(if checked { 4 } else { 0 })
                .filter(|body_end| *body_end >= start);
            let body_end = body_end
                .ok_or_else(|| broken(start, "a component of the statistics is cut off"))?;
            let body = content.slice(start..body_end);
            if checked && crc32fast::hash(&body).to_be_bytes() != content[body_end..end] {
                return Err(broken(start, "the checksum of a component does not match"));
            }
            Ok((start, Reader::new(body)))
        };
        let (at, mut reader) = component(VALIDATION)?;
        let partitioner = utf(&mut reader).ok_or_else(|| broken(at, "no partitioner"))?;
        let chance = reader
            .u64()
            .map_err(|error| broken(at, &error.to_string()))?;
        let (at, mut reader) = component(COMPACTION)?;
        let cardinality = reader
            .u32()
            .and_then(|length| reader.bytes(usize::try_from(length).unwrap_or(usize::MAX)))
            .map_err(|error| broken(at, &error.to_string()))?;
        let (at, mut reader) = component(STATS)?;
        let stats =
            Stats::decode(&mut reader, version).map_err(|error| broken(at, &error.to_string()))?;
        let (at, mut reader) = component(HEADER)?;
        let header =
            HeaderComponent::decode(&mut reader).map_err(|error| broken(at, &error.to_string()))?;
        Ok(Self {
            partitioner,
            bloom_filter_fp_chance: f64::from_bits(chance),
            cardinality,
            stats,
            header,
        })
    }

    /// A table of which the rows are, made from what the header says: column names of the primary
    /// key are not in it. For tools that have no schema.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<TableMetadata> {
        let mut builder: TableBuilder =
            TableMetadata::builder(keyspace, name, TableId(Uuid::nil()));
        for (at, key_type) in parse_key_type(&self.header.key_type)
            .ok()?
            .into_iter()
            .enumerate()
        {
            builder.push(
                format!("partition_key_{at}"),
                ColumnKind::PartitionKey,
                key_type,
                false,
            );
        }
        for (at, type_name) in self.header.clustering_types.iter().enumerate() {
            let (cql_type, reversed) = CqlType::from_java_name_with_order(type_name).ok()?;
            builder.push(
                format!("clustering_{at}"),
                ColumnKind::Clustering,
                cql_type,
                reversed,
            );
        }
        let kinds = [
            (ColumnKind::Static, &self.header.static_columns),
            (ColumnKind::Regular, &self.header.regular_columns),
        ];
        for (kind, columns) in kinds {
            for (column, type_name) in columns {
                builder.push(
                    column.clone(),
                    kind,
                    CqlType::from_java_name(type_name).ok()?,
                    false,
                );
            }
        }
        Some(builder.build())
    }
}

/// Ordinals and offsets of the components, ascending by offset.
fn component_positions(content: &Bytes, checked: bool, path: &Path) -> Result<Vec<(u32, usize)>> {
    let cut = |error: helenus_types::Truncated| corrupt(path, error.at as u64, error.to_string());
    let mut reader = Reader::new(content.clone());
    let count = reader.u32().map_err(cut)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&count.to_be_bytes());
    let mismatch = |at: usize| {
        corrupt(
            path,
            at as u64,
            "the checksum of the contents does not match",
        )
    };
    if checked && reader.u32().map_err(cut)? != hasher.clone().finalize() {
        return Err(mismatch(0));
    }
    let mut toc = Vec::new();
    for _ in 0..count {
        let (ordinal, position) = (reader.u32().map_err(cut)?, reader.u32().map_err(cut)?);
        hasher.update(&ordinal.to_be_bytes());
        hasher.update(&position.to_be_bytes());
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        if position > content.len()
            || toc
                .last()
                .is_some_and(|last: &(u32, usize)| last.1 > position)
        {
            return Err(corrupt(
                path,
                reader.position() as u64,
                "positions of components do not ascend",
            ));
        }
        toc.push((ordinal, position));
    }
    if checked && reader.u32().map_err(cut)? != hasher.finalize() {
        return Err(mismatch(reader.position()));
    }
    Ok(toc)
}
