//! Running one list of CQL statements on two databases and comparing what they answer.
//!
//! A corpus file holds statements that end with `;` at the end of a line. Comment lines that begin with `-- @` say how the next
//! statement runs:
//!
//! | directive | meaning |
//! | --- | --- |
//! | `-- @page N` | fetch all pages of N rows; page boundaries and paging states are compared |
//! | `-- @bind A, B, …` | PREPARE and EXECUTE with these values: hexadecimal bytes, `null`, `unset`, or nothing |
//! | `-- @timestamp N` | with this default timestamp |
//! | `-- @consistency NAME` | at this consistency level instead of ONE |
//! | `-- @metadata` | compare columns and types, not rows, which differ by nature |
//! | `-- @columns A, B` | compare only these columns' values |
//!
//! Every file runs in a keyspace of its own, named as the file, made anew before it and in use. A statement's id is the file's
//! name and a digest of the statement with its directives, so that inserting one does not rename the others.
//!
//! With `HELENUS_E2E_PRINT` set, every answer of the first database is printed.
//!
//! C1: a cell of a column named `ttl(…)` may differ by two seconds; everything else is compared as bytes.

use super::wire::{Connection, Metadata, Outcome, Parameters, Rows, Value};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// One statement of a corpus.
#[derive(Clone, Debug, Default)]
pub struct Statement {
    /// `file/digest`.
    pub id: String,
    /// The line it begins on.
    pub line: usize,
    /// CQL.
    pub text: String,
    page: Option<i32>,
    bind: Option<Vec<Value>>,
    timestamp: Option<i64>,
    consistency: u16,
    metadata_only: bool,
    columns: Option<BTreeSet<String>>,
}

/// A corpus file.
pub struct Corpus {
    /// The file's name without its ending; also its keyspace.
    pub name: String,
    /// Its statements in order.
    pub statements: Vec<Statement>,
}

/// A line of an answer; a TTL is kept as a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Compared as it is.
    Exact(String),
    /// Compared within two seconds.
    Seconds(String, i64),
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => out.write_str(text),
            Self::Seconds(place, seconds) => write!(out, "{place} = {seconds} s"),
        }
    }
}

/// A statement that the two answered differently.
pub struct Difference {
    /// Its id.
    pub id: String,
    /// For a person.
    pub report: String,
}

impl Corpus {
    /// Read a file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path
            .file_stem()
            .context("a file name")?
            .to_string_lossy()
            .into_owned();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let statements = parse(&name, &text).with_context(|| format!("read {}", path.display()))?;
        Ok(Self { name, statements })
    }

    /// Statements that make its keyspace and use it.
    pub fn preparation(&self) -> [String; 3] {
        let name = &self.name;
        [
            format!("DROP KEYSPACE IF EXISTS {name}"),
            format!(
                "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ),
            format!("USE {name}"),
        ]
    }

    /// Run it on both and return the differences.
    pub fn compare(
        &self,
        left: &mut Connection,
        right: &mut Connection,
    ) -> Result<Vec<Difference>> {
        for statement in self.preparation() {
            for connection in [&mut *left, &mut *right] {
                connection
                    .run(&statement)
                    .with_context(|| format!("prepare the corpus {}", self.name))?;
            }
        }
        let version = left.version();
        let mut found = Vec::new();
        for statement in &self.statements {
            let expected = statement.run(left).with_context(|| {
                format!("the oracle failed at {} line {}", self.name, statement.line)
            })?;
            if std::env::var_os("HELENUS_E2E_PRINT").is_some() {
                println!("{} (v{version}): {}", statement.id, statement.text);
                for line in &expected {
                    println!("    {line}");
                }
            }
            let actual = match statement.run(right) {
                Ok(lines) => lines,
                Err(error) => vec![Line::Exact(format!(
                    "no answer that can be read: {error:#}"
                ))],
            };
            if let Some(report) = difference(&expected, &actual) {
                let report = format!(
                    "{} (line {}, v{version}): {}\n{report}",
                    statement.id, statement.line, statement.text
                );
                found.push(Difference {
                    id: statement.id.clone(),
                    report,
                });
            }
        }
        Ok(found)
    }
}

impl Statement {
    /// Run it and write down the answer.
    pub fn run(&self, connection: &mut Connection) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        let mut parameters = Parameters {
            consistency: self.consistency,
            page_size: self.page,
            timestamp: self.timestamp,
            ..Parameters::default()
        };
        let prepared = match &self.bind {
            None => None,
            Some(values) => {
                parameters.values.clone_from(values);
                let answer = connection.prepare(&self.text)?;
                match answer.outcome_in(connection.version())? {
                    Outcome::Prepared(prepared) => {
                        describe_prepared(&prepared, &mut lines);
                        Some(prepared)
                    }
                    other => {
                        self.describe(&other, &answer.warnings, &mut lines);
                        return Ok(lines);
                    }
                }
            }
        };
        loop {
            let answer = match &prepared {
                Some(prepared) => connection.execute(prepared, &parameters)?,
                None => connection.query(&self.text, &parameters)?,
            };
            let outcome = answer.outcome_in(connection.version())?;
            self.describe(&outcome, &answer.warnings, &mut lines);
            match outcome {
                Outcome::Rows(Rows {
                    metadata:
                        Metadata {
                            paging_state: Some(state),
                            ..
                        },
                    ..
                }) if self.page.is_some() => {
                    parameters.paging_state = Some(state);
                }
                _ => return Ok(lines),
            }
            if lines.len() > 100_000 {
                bail!("paging does not end");
            }
        }
    }

    fn describe(&self, outcome: &Outcome, warnings: &[String], lines: &mut Vec<Line>) {
        let mut say = |text: String| lines.push(Line::Exact(text));
        for warning in warnings {
            say(format!("warning: {warning}"));
        }
        match outcome {
            Outcome::Error(error) => say(error.to_string()),
            Outcome::Void => say("void".into()),
            Outcome::SetKeyspace(name) => say(format!("keyspace {name}")),
            Outcome::SchemaChange(change) => say(format!(
                "{} {} {}",
                change.change,
                change.target,
                change.names.join(" ")
            )),
            Outcome::Prepared(prepared) => describe_prepared(prepared, lines),
            Outcome::Other(opcode) => say(format!("opcode {opcode:#04x}")),
            Outcome::Rows(rows) => self.describe_rows(rows, lines),
        }
    }

    fn describe_rows(&self, rows: &Rows, lines: &mut Vec<Line>) {
        describe_metadata("result", &rows.metadata, lines);
        if self.metadata_only {
            return;
        }
        for (number, row) in rows.rows.iter().enumerate() {
            for (column, cell) in rows.metadata.columns.iter().zip(row) {
                if self
                    .columns
                    .as_ref()
                    .is_some_and(|wanted| !wanted.contains(&column.name))
                {
                    continue;
                }
                let place = format!("row {number} {}", column.name);
                lines.push(match cell {
                    Some(bytes) if column.name.starts_with("ttl(") && bytes.len() == 4 => {
                        Line::Seconds(
                            place,
                            i64::from(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
                        )
                    }
                    Some(bytes) => {
                        Line::Exact(format!("{place} = {}", readable(bytes, &column.kind)))
                    }
                    None => Line::Exact(format!("{place} is null")),
                });
            }
        }
        lines.push(Line::Exact(format!("{} rows", rows.rows.len())));
        if let Some(state) = &rows.metadata.paging_state {
            lines.push(Line::Exact(format!(
                "paging state {}",
                super::wire::hex(state)
            )));
        }
    }
}

fn describe_prepared(prepared: &super::wire::Prepared, lines: &mut Vec<Line>) {
    let hex = super::wire::hex;
    lines.push(Line::Exact(format!(
        "prepared {} partition key {:?}",
        hex(&prepared.id),
        prepared.partition_key
    )));
    if !prepared.result_metadata_id.is_empty() {
        lines.push(Line::Exact(format!(
            "result metadata id {}",
            hex(&prepared.result_metadata_id)
        )));
    }
    describe_metadata("bound", &prepared.bound, lines);
    describe_metadata("prepared result", &prepared.result, lines);
}

fn describe_metadata(what: &str, metadata: &Metadata, lines: &mut Vec<Line>) {
    lines.push(Line::Exact(format!(
        "{what}: flags {:#x}, {} columns",
        metadata.flags, metadata.count
    )));
    for column in &metadata.columns {
        lines.push(Line::Exact(format!(
            "{what}: {}.{}.{} {}",
            column.keyspace, column.table, column.name, column.kind
        )));
    }
}

/// Bytes in hexadecimal, and as text where that is what they are.
fn readable(bytes: &[u8], kind: &str) -> String {
    let hex = super::wire::hex(bytes);
    match (kind, std::str::from_utf8(bytes)) {
        ("varchar" | "ascii", Ok(text)) => format!("{hex} {text:?}"),
        _ => hex,
    }
}

/// What differs, as lines that begin with `-` (expected) and `+` (what came), or None.
pub fn difference(expected: &[Line], actual: &[Line]) -> Option<String> {
    let same = |left: &Line, right: &Line| match (left, right) {
        (Line::Seconds(place, left), Line::Seconds(other, right)) => {
            place == other && (left - right).abs() <= 2
        }
        (left, right) => left == right,
    };
    if expected.len() == actual.len()
        && expected
            .iter()
            .zip(actual)
            .all(|(left, right)| same(left, right))
    {
        return None;
    }
    let front = expected
        .iter()
        .zip(actual)
        .take_while(|(left, right)| same(left, right))
        .count();
    let (expected, actual) = (&expected[front..], &actual[front..]);
    let back = expected
        .iter()
        .rev()
        .zip(actual.iter().rev())
        .take_while(|(left, right)| same(left, right))
        .count();
    let mut out = Vec::new();
    for (sign, lines) in [
        ('-', &expected[..expected.len() - back]),
        ('+', &actual[..actual.len() - back]),
    ] {
        out.extend(
            lines
                .iter()
                .take(12)
                .map(|line| format!("    {sign} {line}")),
        );
        if lines.len() > 12 {
            out.push(format!("    {sign} … {} more lines", lines.len() - 12));
        }
    }
    Some(out.join("\n"))
}

fn parse(name: &str, text: &str) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    let mut seen = BTreeSet::new();
    let mut current = Statement {
        consistency: 1,
        ..Statement::default()
    };
    let mut directives = String::new();
    for (number, line) in text.lines().enumerate() {
        let at = || format!("line {}", number + 1);
        if current.text.is_empty() {
            if let Some(directive) = line.strip_prefix("-- @") {
                apply(&mut current, directive).with_context(at)?;
                directives.push_str(directive);
                continue;
            }
            if line.trim().is_empty() || line.starts_with("--") {
                continue;
            }
            current.line = number + 1;
        } else {
            current.text.push('\n');
        }
        current.text.push_str(line);
        if let Some(whole) = current.text.strip_suffix(';') {
            current.text = whole.to_owned();
            current.id = id(name, &directives, &current.text, &mut seen);
            statements.push(std::mem::replace(
                &mut current,
                Statement {
                    consistency: 1,
                    ..Statement::default()
                },
            ));
            directives.clear();
        }
    }
    if !current.text.is_empty() {
        bail!("the statement on line {} does not end with ;", current.line);
    }
    Ok(statements)
}

fn id(name: &str, directives: &str, text: &str, seen: &mut BTreeSet<String>) -> String {
    for repetition in 0_u32.. {
        let digest = Sha256::digest(format!("{directives}\n{text}\n{repetition}"));
        let id = format!("{name}/{}", super::wire::hex(&digest[..5]));
        if seen.insert(id.clone()) {
            return id;
        }
    }
    unreachable!("a file has fewer than four thousand million statements")
}

fn apply(statement: &mut Statement, directive: &str) -> Result<()> {
    let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
    let rest = rest.trim();
    match word {
        "page" => statement.page = Some(rest.parse()?),
        "timestamp" => statement.timestamp = Some(rest.parse()?),
        "metadata" => statement.metadata_only = true,
        "columns" => statement.columns = Some(rest.split(", ").map(str::to_owned).collect()),
        "bind" if rest.is_empty() => statement.bind = Some(Vec::new()),
        "bind" => {
            statement.bind = Some(
                rest.split(',')
                    .map(|part| value(part.trim()))
                    .collect::<Result<_>>()?,
            );
        }
        "consistency" => {
            let names = "ANY ONE TWO THREE QUORUM ALL LOCAL_QUORUM EACH_QUORUM SERIAL LOCAL_SERIAL LOCAL_ONE NODE_LOCAL";
            let number = names
                .split(' ')
                .position(|name| name == rest)
                .with_context(|| format!("no level is called {rest}"))?;
            statement.consistency = u16::try_from(number)?;
        }
        other => bail!("no directive is called @{other}"),
    }
    Ok(())
}

fn value(text: &str) -> Result<Value> {
    Ok(match text {
        "null" => Value::Null,
        "unset" => Value::Unset,
        "empty" => Value::Bytes(Vec::new()),
        hex => {
            if hex.len() % 2 != 0 || !hex.is_ascii() {
                bail!("{hex} is not an even number of hexadecimal digits");
            }
            let bytes = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
            Value::Bytes(
                bytes
                    .collect::<std::result::Result<_, _>>()
                    .with_context(|| format!("read {hex}"))?,
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_directives_are_read() {
        let text = "-- a comment\n-- @page 3\n-- @bind 00000001, null\nSELECT 1\n  FROM t;\n\nSELECT 2;\nSELECT 2;\n";
        let statements = parse("f", text).unwrap();
        assert_eq!(
            statements
                .iter()
                .map(|s| s.text.as_str())
                .collect::<Vec<_>>(),
            ["SELECT 1\n  FROM t", "SELECT 2", "SELECT 2"]
        );
        assert_eq!(statements[0].page, Some(3));
        assert_eq!(
            statements[0].bind,
            Some(vec![Value::Bytes(vec![0, 0, 0, 1]), Value::Null])
        );
        assert_eq!(statements[0].line, 4);
        assert_ne!(
            statements[1].id, statements[2].id,
            "equal statements have ids of their own"
        );
        assert!(parse("f", "SELECT 1").is_err() && parse("f", "-- @nothing\nSELECT 1;").is_err());
    }

    #[test]
    fn differences_name_what_differs_only() {
        let exact = |text: &str| Line::Exact(text.into());
        let left = [
            exact("a"),
            exact("b"),
            exact("c"),
            Line::Seconds("t".into(), 10),
        ];
        let right = [
            exact("a"),
            exact("x"),
            exact("c"),
            Line::Seconds("t".into(), 9),
        ];
        assert_eq!(difference(&left, &right).unwrap(), "    - b\n    + x");
        assert_eq!(difference(&left, &left), None);
    }
}
