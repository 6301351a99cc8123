//! Figures as text, and the table of a comparison.

use crate::load::{Figures, Operation, Shape};
use anyhow::{Result, bail};
use std::fmt::Write as _;

/// A load's name: `insert, closed loop, 4 × 32 in flight`.
pub(crate) fn name(shape: &Shape) -> String {
    let operation = match shape.operation {
        Operation::Insert => "insert",
        Operation::Read => "point read",
    };
    match shape.rate {
        Some(rate) => format!("{operation}, open loop, {rate}/s"),
        None => format!(
            "{operation}, closed loop, {} × {} in flight",
            shape.connections, shape.in_flight
        ),
    }
}

/// One load for a person.
pub(crate) fn text(shape: &Shape, figures: &Figures) -> String {
    let optional =
        |value: Option<f64>| value.map_or("not measured".to_owned(), |value| format!("{value:.1}"));
    let mut out = format!(
        "{}, {} keys, protocol v{}, {} s\n",
        name(shape),
        shape.keys,
        shape.version,
        shape.seconds
    );
    let rows = [
        ("requests", figures.requests.to_string()),
        ("requests/s", format!("{:.0}", figures.per_second)),
        ("p50 ms", format!("{:.2}", figures.p50_ms)),
        ("p95 ms", format!("{:.2}", figures.p95_ms)),
        ("p99 ms", format!("{:.2}", figures.p99_ms)),
        ("p99.9 ms", format!("{:.2}", figures.p999_ms)),
        ("max ms", format!("{:.2}", figures.max_ms)),
        ("server CPU µs/request", optional(figures.server_cpu_us)),
        ("server RSS MiB", optional(figures.server_rss_mib)),
        (
            "client CPU µs/request",
            format!("{:.2}", figures.client_cpu_us),
        ),
        ("errors", figures.errors.to_string()),
        ("missing rows", figures.missing_rows.to_string()),
    ];
    for (name, value) in rows {
        // a string takes all that is written
        writeln!(out, "  {name:<22} {value:>12}").ok();
    }
    out
}

/// A figure stands for requests that did what was asked.
pub(crate) fn check(figures: &Figures) -> Result<()> {
    if figures.errors > 0 || figures.missing_rows > 0 || figures.requests == 0 {
        bail!(
            "{} requests, {} errors ({}), {} rows missing: the figures mean nothing",
            figures.requests,
            figures.errors,
            figures.first_error.as_deref().unwrap_or("no text"),
            figures.missing_rows
        );
    }
    Ok(())
}

/// The median, which a noisy machine moves least.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// A figure's column and how to read it.
type Measure = (&'static str, fn(&Figures) -> f64);

const MEASURES: [Measure; 7] = [
    ("requests/s", |figures| figures.per_second),
    ("server CPU µs/request", |figures| {
        figures.server_cpu_us.unwrap_or(f64::NAN)
    }),
    ("p50 ms", |figures| figures.p50_ms),
    ("p99 ms", |figures| figures.p99_ms),
    ("p99.9 ms", |figures| figures.p999_ms),
    ("max ms", |figures| figures.max_ms),
    ("server RSS MiB", |figures| {
        figures.server_rss_mib.unwrap_or(f64::NAN)
    }),
];

/// Results of one load: the figures of every round, by database.
pub(crate) struct Results {
    pub(crate) shape: Shape,
    pub(crate) by_database: Vec<(&'static str, Vec<Figures>)>,
}

/// The table of medians in Markdown; with two databases a last row has the ratio of the first to the second.
pub(crate) fn table(results: &[Results]) -> String {
    let mut out = String::from("| load | database |");
    for (title, _) in MEASURES {
        write!(out, " {title} |").ok();
    }
    out += "\n| --- | --- |";
    out += &" ---: |".repeat(MEASURES.len());
    out.push('\n');
    for result in results {
        let mut medians = Vec::new();
        for (database, rounds) in &result.by_database {
            let row: Vec<f64> = MEASURES
                .iter()
                .map(|(_, read)| median(rounds.iter().map(read).collect()))
                .collect();
            write!(out, "| {} | {database} |", name(&result.shape)).ok();
            for value in &row {
                write!(out, " {} |", digits(*value)).ok();
            }
            out.push('\n');
            medians.push(row);
        }
        if let [first, second] = medians.as_slice() {
            write!(
                out,
                "| | {} ÷ {} |",
                result.by_database[0].0, result.by_database[1].0
            )
            .ok();
            for (first, second) in first.iter().zip(second) {
                write!(out, " {:.2} |", first / second).ok();
            }
            out.push('\n');
        }
    }
    out
}

fn digits(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }
}
