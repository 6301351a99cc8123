//! Texts of durations: `1y2mo3w4d5h6m7s8ms9us10ns`, ISO 8601 (`P1Y2M3DT4H5M6S`, `P2W`,
//! `P0001-02-03T04:05:06`), each with an optional minus sign before it.

use crate::value::{Duration, ValueError};
use std::fmt;

/// Units from the greatest to the smallest: the index says in which order they may stand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    Seconds,
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Years => "years",
            Self::Months => "months",
            Self::Weeks => "weeks",
            Self::Days => "days",
            Self::Hours => "hours",
            Self::Minutes => "minutes",
            Self::Seconds => "seconds",
            Self::Millis => "milliseconds",
            Self::Micros => "microseconds",
            Self::Nanos => "nanoseconds",
        }
    }

    fn of_symbol(symbol: &str) -> Option<Self> {
        Some(match symbol.to_lowercase().as_str() {
            "y" => Self::Years,
            "mo" => Self::Months,
            "w" => Self::Weeks,
            "d" => Self::Days,
            "h" => Self::Hours,
            "m" => Self::Minutes,
            "s" => Self::Seconds,
            "ms" => Self::Millis,
            "us" | "µs" | "μs" => Self::Micros,
            "ns" => Self::Nanos,
            _ => return None,
        })
    }

    /// Nanoseconds of a unit of time.
    fn nanos(self) -> i64 {
        match self {
            Self::Hours => 3_600_000_000_000,
            Self::Minutes => 60_000_000_000,
            Self::Seconds => 1_000_000_000,
            Self::Millis => 1_000_000,
            Self::Micros => 1000,
            _ => 1,
        }
    }
}

#[derive(Default)]
struct Builder {
    duration: Duration,
    last: Option<Unit>,
}

impl Builder {
    fn add(&mut self, number: i64, unit: Unit) -> Result<(), ValueError> {
        if let Some(last) = self.last {
            if last == unit {
                return Err(ValueError::new(format!(
                    "Invalid duration. The {} are specified multiple times",
                    unit.name()
                )));
            }
            if last > unit {
                let (last, unit) = (last.name(), unit.name());
                return Err(ValueError::new(format!(
                    "Invalid duration. The {last} should be after {unit}"
                )));
            }
        }
        self.last = Some(unit);
        let too_big = |part: &str| {
            ValueError::new(format!(
                "Invalid duration. The total number of {part} must be less or equal to {}",
                i32::MAX
            ))
        };
        let small = |sum: Option<i64>, part: &str| {
            sum.and_then(|s| i32::try_from(s).ok())
                .ok_or_else(|| too_big(part))
        };
        match unit {
            Unit::Years | Unit::Months => {
                let factor = if unit == Unit::Years { 12 } else { 1 };
                let sum = number
                    .checked_mul(factor)
                    .and_then(|n| n.checked_add(i64::from(self.duration.months)));
                self.duration.months = small(sum, "months")?;
            }
            Unit::Weeks | Unit::Days => {
                let factor = if unit == Unit::Weeks { 7 } else { 1 };
                let sum = number
                    .checked_mul(factor)
                    .and_then(|n| n.checked_add(i64::from(self.duration.days)));
                self.duration.days = small(sum, "days")?;
            }
            _ => {
                let sum = number
                    .checked_mul(unit.nanos())
                    .and_then(|n| n.checked_add(self.duration.nanoseconds));
                self.duration.nanoseconds = sum.ok_or_else(|| too_big("nanoseconds"))?;
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Duration {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (negative, source) = text
            .strip_prefix('-')
            .map_or((false, text), |rest| (true, rest));
        let invalid = || ValueError::new(format!("Unable to convert '{source}' to a duration"));
        let mut builder = Builder::default();
        match source.strip_prefix('P') {
            Some(iso) if iso.contains('-') && !iso.ends_with('W') => {
                parse_alternative(iso, &mut builder).ok_or_else(invalid)??;
            }
            Some(iso) => parse_iso(iso, &mut builder).ok_or_else(invalid)??,
            None => parse_standard(source, &mut builder).ok_or_else(invalid)??,
        }
        let Self {
            months,
            days,
            nanoseconds,
        } = builder.duration;
        Ok(if negative {
            Self {
                months: -months,
                days: -days,
                nanoseconds: -nanoseconds,
            }
        } else {
            builder.duration
        })
    }
}

/// A number and what follows it.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// `None`: not of this form; an inner error: of this form but impossible.
type Parsed = Option<Result<(), ValueError>>;

fn parse_standard(mut rest: &str, builder: &mut Builder) -> Parsed {
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (count, after) = number(rest)?;
        let end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let unit = Unit::of_symbol(&after[..end])?;
        if let Err(error) = builder.add(count, unit) {
            return Some(Err(error));
        }
        rest = &after[end..];
    }
    Some(Ok(()))
}

fn parse_iso(iso: &str, builder: &mut Builder) -> Parsed {
    if let Some((weeks, "W")) = number(iso) {
        return Some(builder.add(weeks, Unit::Weeks));
    }
    let (date, time) = iso
        .split_once('T')
        .map_or((iso, ""), |(date, time)| (date, time));
    let date_units = [('Y', Unit::Years), ('M', Unit::Months), ('D', Unit::Days)];
    let time_units = [
        ('H', Unit::Hours),
        ('M', Unit::Minutes),
        ('S', Unit::Seconds),
    ];
    for (mut part, units) in [(date, date_units), (time, time_units)] {
        let mut units = units.iter();
        while !part.is_empty() {
            let (count, after) = number(part)?;
            let symbol = after.chars().next()?;
            // Units may be left out but not change places.
            let unit = units.by_ref().find(|unit| unit.0 == symbol)?.1;
            if let Err(error) = builder.add(count, unit) {
                return Some(Err(error));
            }
            part = &after[symbol.len_utf8()..];
        }
    }
    Some(Ok(()))
}

fn parse_alternative(iso: &str, builder: &mut Builder) -> Parsed {
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = iso.len() == shape.len()
        && iso.bytes().zip(shape).all(|(byte, want)| {
            if *want == b'd' {
                byte.is_ascii_digit()
            } else {
                byte == *want
            }
        });
    if !fits {
        return None;
    }
    let units = [
        Unit::Years,
        Unit::Months,
        Unit::Days,
        Unit::Hours,
        Unit::Minutes,
        Unit::Seconds,
    ];
    for (part, unit) in iso.split(['-', 'T', ':']).zip(units) {
        if let Err(error) = builder.add(part.parse().ok()?, unit) {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let months = u64::from(self.months.unsigned_abs());
        let days = u64::from(self.days.unsigned_abs());
        let mut parts = vec![(months / 12, "y"), (months % 12, "mo"), (days, "d")];
        let mut rest = self.nanoseconds.unsigned_abs();
        for (unit, symbol) in [
            (Unit::Hours, "h"),
            (Unit::Minutes, "m"),
            (Unit::Seconds, "s"),
            (Unit::Millis, "ms"),
            (Unit::Micros, "us"),
            (Unit::Nanos, "ns"),
        ] {
            let size = unit.nanos().unsigned_abs();
            parts.push((rest / size, symbol));
            rest %= size;
        }
        parts
            .iter()
            .filter(|part| part.0 > 0)
            .try_for_each(|(count, symbol)| write!(f, "{count}{symbol}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, months: i32, days: i32, nanoseconds: i64) {
        assert_eq!(
            text.parse(),
            Ok(Duration {
                months,
                days,
                nanoseconds
            }),
            "{text}"
        );
    }

    #[test]
    fn all_forms() {
        check("1y2mo3w4d5h6m7s8ms9us10ns", 14, 25, 18_367_008_009_010);
        check("-1Y3D", -12, -3, 0);
        check("5µs", 0, 0, 5000);
        check("P1Y2M3DT4H5M6S", 14, 3, 14_706_000_000_000);
        check("-P2W", 0, -14, 0);
        check("P0001-02-03T04:05:06", 14, 3, 14_706_000_000_000);
        check("PT4M", 0, 0, 240_000_000_000);
        for text in [
            "",
            "1",
            "y",
            "1x",
            "1d1y",
            "1d1d",
            "P1D1Y",
            "P1H",
            "99999999999999999999s",
            "3000000000d",
            "P1-2",
            "é",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
        assert_eq!(
            "1y2mo25d5h6m7s8ms9us10ns"
                .parse::<Duration>()
                .unwrap()
                .to_string(),
            "1y2mo25d5h6m7s8ms9us10ns"
        );
        assert_eq!("-90s".parse::<Duration>().unwrap().to_string(), "-1m30s");
    }
}
