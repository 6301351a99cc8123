//! Options of tables: `WITH name = value AND …`.

use crate::ast::{Properties, PropertyValue};
use crate::error::CqlError;
use bytes::Bytes;
use helenus_schema::TableParams;
use std::collections::BTreeMap;

const COMPACTION_PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const COMPRESSION_PACKAGE: &str = "org.apache.cassandra.io.compress.";

/// Strategies and the options that each knows besides the common ones.
const STRATEGIES: [(&str, &[&str]); 4] = [
    (
        "SizeTieredCompactionStrategy",
        &["bucket_high", "bucket_low", "min_sstable_size"],
    ),
    (
        "LeveledCompactionStrategy",
        &[
            "sstable_size_in_mb",
            "fanout_size",
            "single_sstable_uplevel",
        ],
    ),
    (
        "TimeWindowCompactionStrategy",
        &[
            "compaction_window_unit",
            "compaction_window_size",
            "timestamp_resolution",
            "expired_sstable_check_frequency_seconds",
            "unsafe_aggressive_sstable_expiration",
            "split_during_flush",
            "bucket_high",
            "bucket_low",
            "min_sstable_size",
        ],
    ),
    (
        "UnifiedCompactionStrategy",
        &[
            "scaling_parameters",
            "target_sstable_size",
            "base_shard_count",
            "sstable_growth",
            "flush_size_override",
            "max_sstables_to_compact",
            "expired_sstable_check_frequency_seconds",
            "unsafe_aggressive_sstable_expiration",
            "overlap_inclusion_method",
            "min_sstable_size",
            "parallelize_output_shards",
        ],
    ),
];
const COMMON: [&str; 9] = [
    "enabled",
    "min_threshold",
    "max_threshold",
    "tombstone_threshold",
    "tombstone_compaction_interval",
    "unchecked_tombstone_compaction",
    "only_purge_repaired_tombstones",
    "log_all",
    "provide_overlapping_tombstones",
];
const COMPRESSORS: [&str; 6] = [
    "LZ4Compressor",
    "SnappyCompressor",
    "DeflateCompressor",
    "ZstdCompressor",
    "ZstdDictionaryCompressor",
    "NoopCompressor",
];

fn config(text: String) -> CqlError {
    CqlError::Config(text)
}

fn simple<'v>(name: &str, value: &'v PropertyValue) -> Result<&'v str, CqlError> {
    match value {
        PropertyValue::Simple(text) => Ok(text),
        PropertyValue::Map(_) => Err(CqlError::Syntax(format!(
            "Invalid value for property '{name}'. It should be a string"
        ))),
    }
}

fn map(name: &str, value: &PropertyValue) -> Result<BTreeMap<String, String>, CqlError> {
    match value {
        PropertyValue::Map(entries) => Ok(entries.iter().cloned().collect()),
        PropertyValue::Simple(_) => Err(CqlError::Syntax(format!(
            "Invalid value for property '{name}'. It should be a map."
        ))),
    }
}

fn integer(name: &str, value: &PropertyValue, least: i32) -> Result<i32, CqlError> {
    let text = simple(name, value)?;
    let parsed: i32 = text
        .parse()
        .map_err(|_| CqlError::Syntax(format!("Invalid integer value {text} for '{name}'")))?;
    if parsed < least {
        return Err(config(format!(
            "{name} must be greater than or equal to {least} (got {parsed})"
        )));
    }
    Ok(parsed)
}

fn number(name: &str, value: &PropertyValue) -> Result<f64, CqlError> {
    let text = simple(name, value)?;
    text.parse()
        .map_err(|_| CqlError::Syntax(format!("Invalid double value {text} for '{name}'")))
}

fn boolean(name: &str, value: &PropertyValue) -> Result<bool, CqlError> {
    let text = simple(name, value)?;
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(CqlError::Syntax(format!(
            "Invalid boolean value {text} for '{name}'"
        ))),
    }
}

/// The options that properties make of `base`.
pub(super) fn parse(
    properties: &Properties,
    base: &TableParams,
    warnings: &mut Vec<String>,
) -> Result<TableParams, CqlError> {
    let mut params = base.clone();
    for (name, value) in properties {
        apply(name, value, &mut params, warnings)?;
    }
    if params.min_index_interval > params.max_index_interval {
        return Err(config(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({}) (got {}).",
            params.min_index_interval, params.max_index_interval
        )));
    }
    Ok(params)
}

fn apply(
    name: &str,
    value: &PropertyValue,
    params: &mut TableParams,
    warnings: &mut Vec<String>,
) -> Result<(), CqlError> {
    match name {
        "comment" => simple(name, value)?.clone_into(&mut params.comment),
        "bloom_filter_fp_chance" => {
            params.bloom_filter_fp_chance = bloom_filter_fp_chance(name, value)?;
        }
        "crc_check_chance" => params.crc_check_chance = crc_check_chance(name, value)?,
        "caching" => params.caching = caching(&map(name, value)?)?,
        "cdc" => params.cdc = boolean(name, value)?,
        "allow_auto_snapshot" => params.allow_auto_snapshot = boolean(name, value)?,
        "incremental_backups" => params.incremental_backups = boolean(name, value)?,
        "compaction" => params.compaction = compaction(map(name, value)?)?,
        "compression" => params.compression = compression(map(name, value)?)?,
        "default_time_to_live" => {
            params.default_time_to_live_seconds = default_time_to_live(name, value)?;
        }
        "gc_grace_seconds" => params.gc_grace_seconds = integer(name, value, 0)?,
        "max_index_interval" => params.max_index_interval = integer(name, value, 1)?,
        "min_index_interval" => params.min_index_interval = integer(name, value, 1)?,
        "memtable_flush_period_in_ms" => {
            params.memtable_flush_period_in_ms = integer(name, value, 0)?;
        }
        "memtable" => {
            let text = simple(name, value)?;
            params.memtable = if text == "default" {
                String::new()
            } else {
                text.to_owned()
            };
        }
        "read_repair" => params.read_repair = read_repair(name, value)?,
        "speculative_retry" => params.speculative_retry = retry_policy(name, simple(name, value)?)?,
        "additional_write_policy" => {
            params.additional_write_policy = retry_policy(name, simple(name, value)?)?;
        }
        "extensions" => params.extensions = extensions(map(name, value)?)?,
        "dclocal_read_repair_chance" | "read_repair_chance" => {
            warnings.push(format!("Ignoring obsolete property {name}"));
        }
        _ => return Err(CqlError::Syntax(format!("Unknown property '{name}'"))),
    }
    Ok(())
}

fn bloom_filter_fp_chance(name: &str, value: &PropertyValue) -> Result<f64, CqlError> {
    let chance = number(name, value)?;
    if chance > 6.71e-5 && chance <= 1.0 {
        return Ok(chance);
    }
    Err(config(format!(
        "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {chance:?})"
    )))
}

fn crc_check_chance(name: &str, value: &PropertyValue) -> Result<f64, CqlError> {
    let chance = number(name, value)?;
    if (0.0..=1.0).contains(&chance) {
        return Ok(chance);
    }
    Err(config(format!(
        "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {chance:?})"
    )))
}

fn default_time_to_live(name: &str, value: &PropertyValue) -> Result<i32, CqlError> {
    let seconds = integer(name, value, 0)?;
    let most = 630_720_000;
    if seconds > most {
        return Err(config(format!(
            "default_time_to_live must be less than or equal to {most} (got {seconds})"
        )));
    }
    Ok(seconds)
}

fn read_repair(name: &str, value: &PropertyValue) -> Result<String, CqlError> {
    let text = simple(name, value)?.to_ascii_uppercase();
    if !matches!(text.as_str(), "BLOCKING" | "NONE") {
        return Err(config(format!(
            "Invalid value {text} for option 'read_repair'"
        )));
    }
    Ok(text)
}

/// Blobs by name, written in hexadecimal.
fn extensions(given: BTreeMap<String, String>) -> Result<BTreeMap<String, Bytes>, CqlError> {
    given
        .into_iter()
        .map(|(key, text)| {
            let bytes = helenus_types::CqlType::Blob
                .parse_plain(text.strip_prefix("0x").unwrap_or(&text))?;
            Ok((key, bytes))
        })
        .collect()
}

fn caching(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, CqlError> {
    let mut caching = TableParams::default().caching;
    for (name, value) in given {
        let upper = value.to_ascii_uppercase();
        match name.as_str() {
            "keys" if matches!(upper.as_str(), "ALL" | "NONE") => {}
            "keys" => {
                return Err(config(format!(
                    "Invalid value '{value}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
                )));
            }
            "rows_per_partition"
                if matches!(upper.as_str(), "ALL" | "NONE") || upper.parse::<u32>().is_ok() => {}
            "rows_per_partition" => {
                return Err(config(format!(
                    "Invalid value '{value}' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and integer values are allowed"
                )));
            }
            _ => {
                return Err(config(format!(
                    "Invalid caching sub-options {{{name}={value}}}: only 'keys' and 'rows_per_partition' are allowed"
                )));
            }
        }
        caching.insert(name.clone(), upper);
    }
    Ok(caching)
}

fn compaction(mut given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, CqlError> {
    let class = given
        .remove("class")
        .ok_or_else(|| config("Missing sub-option 'class' for the 'compaction' option.".into()))?;
    let class = if class.contains('.') {
        class
    } else {
        format!("{COMPACTION_PACKAGE}{class}")
    };
    let short = class.strip_prefix(COMPACTION_PACKAGE).unwrap_or_default();
    let Some((_, known)) = STRATEGIES.iter().find(|entry| entry.0 == short) else {
        return Err(config(format!(
            "Unable to find compaction strategy class '{class}'"
        )));
    };
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|name| !COMMON.contains(name) && !known.contains(name))
        .collect();
    if !unknown.is_empty() {
        return Err(config(format!(
            "Properties specified [{}] are not understood by {short}",
            unknown.join(", ")
        )));
    }
    let threshold = |name: &str, default: i64| -> Result<i64, CqlError> {
        given.get(name).map_or(Ok(default), |text| {
            text.parse().map_err(|_| {
                config(format!(
                    "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
                ))
            })
        })
    };
    let (least, most) = (
        threshold("min_threshold", 4)?,
        threshold("max_threshold", 32)?,
    );
    if least < 2 {
        return Err(config(format!(
            "Min compaction threshold cannot be less than 2 (got {least})"
        )));
    }
    if least > most {
        return Err(config(format!(
            "Min compaction threshold (got {least}) cannot be greater than max compaction threshold (got {most})"
        )));
    }
    if short != "UnifiedCompactionStrategy" {
        given
            .entry("min_threshold".into())
            .or_insert_with(|| "4".into());
        given
            .entry("max_threshold".into())
            .or_insert_with(|| "32".into());
    }
    given.insert("class".into(), class);
    Ok(given)
}

fn compression(mut given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, CqlError> {
    let enabled = given
        .remove("enabled")
        .is_none_or(|text| !text.eq_ignore_ascii_case("false"));
    for (old, new) in [
        ("sstable_compression", "class"),
        ("chunk_length_kb", "chunk_length_in_kb"),
    ] {
        if let Some(value) = given.remove(old) {
            given.entry(new.into()).or_insert(value);
        }
    }
    let class = given.remove("class").filter(|class| !class.is_empty());
    if !enabled || (class.is_none() && given.is_empty()) {
        return Ok(BTreeMap::from([("enabled".into(), "false".into())]));
    }
    let class = class
        .ok_or_else(|| config("Missing sub-option 'class' for the 'compression' option.".into()))?;
    let class = if class.contains('.') {
        class
    } else {
        format!("{COMPRESSION_PACKAGE}{class}")
    };
    let short = class.strip_prefix(COMPRESSION_PACKAGE).unwrap_or_default();
    if !COMPRESSORS.contains(&short) {
        return Err(config(format!(
            "Could not create Compression for type {class}"
        )));
    }
    let length = given
        .entry("chunk_length_in_kb".into())
        .or_insert_with(|| "16".into());
    let parsed: u32 = length
        .trim_end_matches("KiB")
        .parse()
        .map_err(|_| config(format!("Invalid value for chunk_length_in_kb: {length}")))?;
    if !parsed.is_power_of_two() {
        return Err(config("chunk_length_in_kb must be a power of 2".into()));
    }
    *length = parsed.to_string();
    given.insert("class".into(), class);
    Ok(given)
}

/// `99p`, `10ms`, `ALWAYS`, `NEVER` (and `NONE`), `MIN(…)`, `MAX(…)`.
fn retry_policy(name: &str, text: &str) -> Result<String, CqlError> {
    let bad = || config(format!("Invalid value {text} for option '{name}'"));
    let upper = text.trim().to_ascii_uppercase();
    let canonical =
        |digits: &str| -> Result<f64, CqlError> { digits.trim().parse::<f64>().map_err(|_| bad()) };
    if matches!(upper.as_str(), "ALWAYS" | "NEVER") {
        return Ok(upper);
    }
    if upper == "NONE" {
        return Ok("NEVER".into());
    }
    if let Some(digits) = upper
        .strip_suffix("PERCENTILE")
        .or_else(|| upper.strip_suffix('P'))
    {
        let value = canonical(digits)?;
        if !(value > 0.0 && value < 100.0) {
            return Err(bad());
        }
        return Ok(format!("{value}p"));
    }
    if let Some(digits) = upper.strip_suffix("MS") {
        let value = canonical(digits)?;
        return if value > 0.0 {
            Ok(format!("{value}ms"))
        } else {
            Err(bad())
        };
    }
    let hybrid = ["MIN", "MAX"].iter().find_map(|word| {
        Some((
            word,
            upper
                .strip_prefix(word)?
                .strip_prefix('(')?
                .strip_suffix(')')?,
        ))
    });
    let Some((word, inner)) = hybrid else {
        return Err(bad());
    };
    let (first, second) = inner.split_once(',').ok_or_else(bad)?;
    Ok(format!(
        "{word}({},{})",
        retry_policy(name, first)?,
        retry_policy(name, second)?
    ))
}
