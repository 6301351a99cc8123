//! Days of the proleptic Gregorian calendar and texts of dates, times and timestamps, in UTC.
//!
//! A timestamp text without a zone means UTC here; Cassandra takes the zone of its machine, which
//! is UTC in every container. Zones are accepted as offsets, `Z`, `UTC` and `GMT`; names of regions
//! are refused.

use crate::value::ValueError;
use std::fmt::Write as _;

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Days from 1970-01-01 to a date (Howard Hinnant's `days_from_civil`).
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a count of days since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (
        year,
        u32::try_from(month).unwrap_or(1),
        u32::try_from(day).unwrap_or(1),
    )
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year.rem_euclid(4) == 0
            && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) =>
        {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `yyyy-MM-dd` of days since 1970, as Java's ISO date: a sign before years of more or less than four digits.
pub fn format_date(days: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    let sign = match year {
        i64::MIN..0 => "-",
        10_000.. => "+",
        _ => "",
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

/// A timestamp in milliseconds as `yyyy-MM-dd<separator>HH:mm:ss.SSSZ`; years before 1 by their number in that era.
pub fn format_timestamp(millis: i64, separator: char) -> String {
    let (year, month, day) = civil_from_days(millis.div_euclid(MILLIS_PER_DAY));
    let year_of_era = if year <= 0 { 1 - year } else { year };
    let sign = if year_of_era > 9999 { "+" } else { "" };
    let rest = millis.rem_euclid(MILLIS_PER_DAY);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!(
        "{sign}{year_of_era:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
    )
}

/// Nanoseconds since midnight as `HH:mm:ss.nnnnnnnnn`.
pub fn format_time(nanos: i64) -> String {
    let seconds = nanos.div_euclid(NANOS_PER_SECOND);
    let mut out = String::new();
    write!(
        out,
        "{:02}:{:02}:{:02}.{:09}",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        nanos.rem_euclid(NANOS_PER_SECOND)
    )
    .unwrap_or_default();
    out
}

/// A cursor over a text of digits and separators.
struct Scanner<'a> {
    rest: &'a str,
}

impl Scanner<'_> {
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self
            .rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits.parse().ok()
    }

    fn take(&mut self, prefix: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(prefix)?;
        Some(())
    }

    /// A year: four digits or more; more than four only behind a plus sign when `strict`.
    fn year(&mut self, least: usize, strict: bool) -> Option<i64> {
        let sign = match self.rest.as_bytes().first()? {
            b'-' => -1,
            b'+' => 1,
            _ => 0,
        };
        if sign != 0 {
            self.rest = &self.rest[1..];
        }
        let before = self.rest.len();
        let year = self.digits(least, 10)?;
        let long = before - self.rest.len() > 4;
        if strict && long && sign == 0 {
            return None;
        }
        Some(if sign < 0 { -year } else { year })
    }
}

fn date_part(scanner: &mut Scanner<'_>, padded: bool, strict: bool) -> Option<i64> {
    let (least, year_least) = if padded { (2, 4) } else { (1, 1) };
    let year = scanner.year(year_least, padded)?;
    scanner.take('-')?;
    let month = u32::try_from(scanner.digits(least, 2)?)
        .ok()
        .filter(|m| (1..=12).contains(m))?;
    scanner.take('-')?;
    let day = u32::try_from(scanner.digits(least, 2)?)
        .ok()
        .filter(|d| (1..=31).contains(d))?;
    let last = days_in_month(year, month);
    if strict && day > last {
        return None;
    }
    // Java's lenient resolver takes the last day of the month for one that the month lacks.
    Some(days_from_civil(year, month, day.min(last)))
}

/// Seconds east of UTC; the whole rest of the text must be a zone, or nothing.
fn zone_part(rest: &str) -> Option<i64> {
    if rest.is_empty() {
        return Some(0);
    }
    let text = rest.strip_prefix(' ').unwrap_or(rest);
    if matches!(
        text,
        "Z" | "UTC" | "GMT" | "UT" | "Coordinated Universal Time" | "Greenwich Mean Time"
    ) {
        return Some(0);
    }
    let text = text
        .strip_prefix("UTC")
        .or_else(|| text.strip_prefix("GMT"))
        .unwrap_or(text);
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let mut scanner = Scanner { rest: &text[1..] };
    let hours = scanner.digits(2, 2)?;
    let colon = scanner.take(':').is_some();
    let minutes = if scanner.rest.is_empty() && !colon {
        0
    } else {
        scanner.digits(2, 2)?
    };
    let valid = scanner.rest.is_empty() && hours <= 18 && minutes < 60;
    valid.then_some(sign * (hours * 3600 + minutes * 60))
}

fn parse_date_time(text: &str) -> Option<i64> {
    let mut scanner = Scanner { rest: text };
    let days = date_part(&mut scanner, false, false)?;
    scanner.take('T').or_else(|| scanner.take(' '))?;
    let hour = scanner.digits(1, 2).filter(|h| *h < 24)?;
    scanner.take(':')?;
    let minute = scanner.digits(1, 2).filter(|m| *m < 60)?;
    let second = match scanner.take(':') {
        Some(()) => scanner.digits(1, 2).filter(|s| *s < 60)?,
        None => 0,
    };
    let mut millis = 0;
    if scanner.take('.').is_some() {
        let before = scanner.rest;
        let fraction = if before.starts_with(|c: char| c.is_ascii_digit()) {
            scanner.digits(1, 9)?
        } else {
            0
        };
        let count = u32::try_from(before.len() - scanner.rest.len()).ok()?;
        millis = if count <= 3 {
            fraction * 10_i64.pow(3 - count)
        } else {
            fraction / 10_i64.pow(count - 3)
        };
    }
    let offset = zone_part(scanner.rest)?;
    let seconds = hour * 3600 + minute * 60 + second - offset;
    days.checked_mul(MILLIS_PER_DAY)?
        .checked_add(seconds * 1000 + millis)
}

fn parse_date_only(text: &str) -> Option<i64> {
    let mut scanner = Scanner { rest: text };
    let days = date_part(&mut scanner, true, false)?;
    days.checked_mul(MILLIS_PER_DAY)?
        .checked_sub(zone_part(scanner.rest)? * 1000)
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Milliseconds since 1970 of a text: an integer, or date and time in a form that Cassandra accepts.
/// `now` is not known here and is refused.
pub fn parse_timestamp(text: &str) -> Result<i64, ValueError> {
    if is_integer(text) {
        return text.parse().map_err(|_| {
            ValueError::new(format!("Unable to make long (for date) from: '{text}'"))
        });
    }
    parse_date_time(text)
        .or_else(|| parse_date_only(text))
        .ok_or_else(|| ValueError::new(format!("Unable to parse a date/time from '{text}'")))
}

/// Days since 1970 of a text: `yyyy-MM-dd`, or the stored unsigned number.
pub fn parse_date(text: &str) -> Result<i32, ValueError> {
    if is_integer(text) {
        return text
            .parse::<u32>()
            .map(|raw| (raw ^ (1 << 31)).cast_signed())
            .map_err(|_| {
                ValueError::new(format!(
                    "Unable to make unsigned int (for date) from: '{text}'"
                ))
            });
    }
    let mut scanner = Scanner { rest: text };
    date_part(&mut scanner, true, true)
        .filter(|_| scanner.rest.is_empty())
        .and_then(|days| i32::try_from(days).ok())
        .ok_or_else(|| {
            ValueError::new(format!(
                "Unable to coerce '{text}' to a formatted date (long)"
            ))
        })
}

/// Nanoseconds since midnight of a text: `hh:mm:ss[.fffffffff]`, or the number itself.
pub fn parse_time(text: &str) -> Result<i64, ValueError> {
    if is_integer(text) {
        return text
            .parse()
            .ok()
            .filter(|nanos: &i64| (0..86_400 * NANOS_PER_SECOND).contains(nanos))
            .ok_or_else(|| {
                ValueError::new(format!("Unable to make long (for time) from: '{text}'"))
            });
    }
    parse_clock(text.trim()).ok_or_else(|| {
        ValueError::new(format!(
            "(TimeType) Unable to coerce '{text}' to a formatted time (long)"
        ))
    })
}

fn parse_clock(text: &str) -> Option<i64> {
    let mut scanner = Scanner { rest: text };
    let hour = scanner.digits(1, 9).filter(|h| *h < 24)?;
    scanner.take(':')?;
    let minute = scanner.digits(1, 9).filter(|m| *m < 60)?;
    scanner.take(':')?;
    let second = scanner.digits(1, 9).filter(|s| *s < 60)?;
    let mut nanos = 0;
    if scanner.take('.').is_some() {
        let before = scanner.rest.len();
        nanos = scanner.digits(1, 9)?;
        nanos *= 10_i64.pow(9 - u32::try_from(before - scanner.rest.len()).ok()?);
    }
    scanner
        .rest
        .is_empty()
        .then_some((hour * 3600 + minute * 60 + second) * NANOS_PER_SECOND + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_round_trip() {
        for days in (-800_000..800_000).step_by(37) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }

    #[test]
    fn timestamps() {
        let base = 1_296_705_900_000; // 2011-02-03 04:05:00 UTC
        for (text, millis) in [
            ("2011-02-03 04:05", base),
            ("2011-02-03T04:05:00Z", base),
            ("2011-02-03 04:05:00.123+0000", base + 123),
            ("2011-02-03 04:05:00.1234567 UTC", base + 123),
            ("2011-2-3 4:5:0.5+01:00", base + 500 - 3_600_000),
            ("2011-02-03 06:05+02", base),
            ("2011-02-03", base - 14_700_000),
            ("2011-02-03+0100", base - 14_700_000 - 3_600_000),
            ("1296705900000", base),
            ("-1", -1),
        ] {
            assert_eq!(parse_timestamp(text), Ok(millis), "{text}");
        }
        for text in [
            "",
            "2011-13-01",
            "2011-02-03 25:00",
            "2011-02-03 04:05 Mars",
            "2011-2-3",
        ] {
            assert!(parse_timestamp(text).is_err(), "{text}");
        }
        assert_eq!(format_timestamp(base, ' '), "2011-02-03 04:05:00.000Z");
        assert_eq!(format_timestamp(-1, 'T'), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(parse_date("1970-01-02"), Ok(1));
        assert_eq!(parse_date("2147483648"), Ok(0));
        assert!(parse_date("2011-02-29").is_err());
        assert_eq!(format_date(-1), "1969-12-31");
        assert_eq!(parse_time("08:12:54.123"), Ok(29_574_123_000_000));
        assert_eq!(format_time(29_574_123_000_000), "08:12:54.123000000");
        assert!(parse_time("24:00:00").is_err());
        assert!(parse_time("08:12").is_err());
        assert!(parse_date("\u{e9}").is_err());
    }
}
