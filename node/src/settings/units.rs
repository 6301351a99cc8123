//! Units of settings: durations (`500ms`, `10s`, `3h`) and sizes (`32MiB`), and the names that older
//! versions gave to settings whose unit was in the name.

use anyhow::{Result, anyhow};
use std::time::Duration;

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// A duration as Cassandra 5.0 writes it; a bare number is milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration> {
    let (number, unit) = split(text);
    let bad = || anyhow!("'{text}' is not a duration such as 500ms, 10s, 5m, 3h or 1d");
    let count: u64 = number.parse().map_err(|_| bad())?;
    let seconds = |each: u64| {
        count
            .checked_mul(each)
            .map(Duration::from_secs)
            .ok_or_else(bad)
    };
    match unit {
        "ns" => Ok(Duration::from_nanos(count)),
        "us" | "µs" => Ok(Duration::from_micros(count)),
        "ms" | "" => Ok(Duration::from_millis(count)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        "d" => seconds(86_400),
        _ => Err(bad()),
    }
}

/// A size in bytes as Cassandra 5.0 writes it; a bare number is bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64> {
    let (number, unit) = split(text);
    let bad = || anyhow!("'{text}' is not a size such as 512KiB, 32MiB or 4GiB");
    let count: u64 = number.parse().map_err(|_| bad())?;
    let shift = match unit {
        "B" | "" => 0,
        "KiB" | "KB" => 10,
        "MiB" | "MB" => 20,
        "GiB" | "GB" => 30,
        _ => return Err(bad()),
    };
    count.checked_mul(1 << shift).ok_or_else(bad)
}

const OLD_SUFFIXES: [&str; 7] = [
    "_in_ms",
    "_in_seconds",
    "_in_secs",
    "_in_kb",
    "_in_mb",
    "_mb_per_sec",
    "_megabits_per_sec",
];

/// The name without a unit that older versions put into it.
pub(crate) fn current_name(name: &str) -> &str {
    OLD_SUFFIXES
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

/// The name that older versions gave to a duration in milliseconds.
pub(crate) fn old_millisecond_name(name: &str) -> String {
    format!("{name}_in_ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_cassandra() {
        assert_eq!(parse_duration("15ms").unwrap(), Duration::from_millis(15));
        assert_eq!(parse_duration("3h").unwrap(), Duration::from_hours(3));
        assert_eq!(parse_bytes("32MiB").unwrap(), 32 << 20);
        assert!(parse_duration("5 parsecs").is_err());
        assert!(parse_bytes("-1MiB").is_err());
    }
}
