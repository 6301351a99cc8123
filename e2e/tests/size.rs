//! Holds files and functions to their sizes, so that no room of the house grows into a hall.
//!
//! A file has at most 1,000 production lines (without tests, blanks and comments), a function at most 70 lines.
//! Exceptions are listed below with their size of today: a listed one may shrink, never grow, and must be struck off once
//! it keeps the limit.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what it did not expect"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LIMIT: usize = 1_000;
const FUNCTION_LIMIT: usize = 70;

/// `path` or `path::function` and its size when it was listed.
const EXCEPTIONS: &[(&str, usize)] = &[];

/// Folders with our Rust code.
const FOLDERS: &[&str] = &["crds", "operator", "node", "e2e"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

fn rust_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().unwrap() != "target" {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A line of code: its number from 1, and its text without comments and without what stands in quotes.
struct Line {
    number: usize,
    text: String,
}

/// The code of a file: comments and strings emptied, so that braces in them do not count.
fn code(source: &str) -> Vec<Line> {
    let characters: Vec<char> = source.chars().collect();
    let mut lines = vec![String::new()];
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let skip = match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment(rest),
            ['r' | 'b' | 'c', ..] if !ends_in_word(&lines) && raw_string(rest).is_some() => {
                raw_string(rest).unwrap_or(1)
            }
            ['"', ..] => quoted(rest, '"'),
            ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(rest, '\''),
            _ => 0,
        };
        let taken = &rest[..skip.max(1)];
        if skip == 0 && taken[0] != '\n' {
            lines.last_mut().unwrap().push(taken[0]);
        } else if skip > 0 && taken[0] != '/' {
            lines.last_mut().unwrap().push('"');
        }
        lines.extend(taken.iter().filter(|c| **c == '\n').map(|_| String::new()));
        at += taken.len();
    }
    lines
        .into_iter()
        .enumerate()
        .map(|(index, text)| Line {
            number: index + 1,
            text,
        })
        .collect()
}

/// Whether the code so far ends within a name, so that an `r` continues it and starts no raw string.
fn ends_in_word(lines: &[String]) -> bool {
    lines
        .last()
        .and_then(|line| line.chars().last())
        .is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn block_comment(text: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match text[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn quoted(text: &[char], end: char) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != end {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

fn raw_string(text: &[char]) -> Option<usize> {
    let prefix = text
        .iter()
        .take_while(|c| matches!(c, 'r' | 'b' | 'c'))
        .count();
    let hashes = text[prefix..].iter().take_while(|c| **c == '#').count();
    if text.get(prefix + hashes) != Some(&'"') || !text[..prefix].contains(&'r') {
        return None;
    }
    let body = prefix + hashes + 1;
    let end: Vec<char> = std::iter::once('"')
        .chain(std::iter::repeat_n('#', hashes))
        .collect();
    let length = text[body..]
        .windows(end.len())
        .position(|window| window == end)?;
    Some(body + length + end.len())
}

/// The lines of production: everything that is not in an item marked `#[cfg(test)]`.
fn production(lines: Vec<Line>) -> Vec<Line> {
    let mut kept = Vec::new();
    let mut lines = lines.into_iter();
    while let Some(line) = lines.next() {
        if line.text.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        let (mut depth, mut opened) = (0, false);
        for line in lines.by_ref() {
            opened |= line.text.contains('{');
            depth += braces(&line.text);
            if (opened && depth <= 0) || (!opened && line.text.contains(';')) {
                break;
            }
        }
    }
    kept
}

fn braces(text: &str) -> i64 {
    text.chars()
        .map(|c| i64::from(c == '{') - i64::from(c == '}'))
        .sum()
}

/// Name of the function that a line starts to define.
fn function_name(text: &str) -> Option<&str> {
    let at = text.match_indices("fn ").map(|(at, _)| at);
    let start = at
        .into_iter()
        .find(|at| *at == 0 || text[..*at].ends_with([' ', '(']))?;
    let name = text[start + 3..]
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (!name.is_empty()).then_some(name)
}

/// Every function with its lines from signature to closing brace. Functions without a body are none.
fn functions(lines: &[Line]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(&line.text) else {
            continue;
        };
        let (mut depth, mut opened) = (0, false);
        for end in &lines[index..] {
            opened |= end.text.contains('{');
            depth += braces(&end.text);
            if opened && depth <= 0 {
                found.push((name.to_owned(), end.number - line.number + 1));
                break;
            }
            if !opened && end.text.trim_end().ends_with(';') {
                break;
            }
        }
    }
    found
}

/// Everything that is too large, by name.
fn too_large() -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for path in rust_files() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let test_file = name.contains("/tests/") || name.ends_with("/tests.rs");
        let source = fs::read_to_string(&path).unwrap();
        let lines = if test_file {
            code(&source)
        } else {
            production(code(&source))
        };
        for (function, size) in functions(&lines) {
            if size > FUNCTION_LIMIT {
                let size_before = found
                    .insert(format!("{name}::{function}"), size)
                    .unwrap_or(0);
                let entry = found.get_mut(&format!("{name}::{function}")).unwrap();
                *entry = size.max(size_before);
            }
        }
        let size = lines
            .iter()
            .filter(|line| !line.text.trim().is_empty())
            .count();
        if size > FILE_LIMIT {
            found.insert(name, size);
        }
    }
    found
}

#[test]
fn files_and_functions_keep_their_sizes() {
    let mut problems = Vec::new();
    let mut listed: BTreeMap<&str, usize> = EXCEPTIONS.iter().copied().collect();
    for (name, size) in too_large() {
        match listed.remove(name.as_str()) {
            None => problems.push(format!("{name} has {size} lines: split it by operation")),
            Some(allowed) if size > allowed => {
                problems.push(format!("{name} grew from {allowed} to {size} lines"));
            }
            Some(allowed) if size < allowed => {
                problems.push(format!(
                    "{name} shrank from {allowed} to {size} lines: say so in the list of exceptions"
                ));
            }
            Some(_) => {}
        }
    }
    problems.extend(
        listed
            .keys()
            .map(|name| format!("{name} keeps the limit now: strike it off the exceptions")),
    );
    assert!(
        problems.is_empty(),
        "limits: file {FILE_LIMIT}, function {FUNCTION_LIMIT}\n{}",
        problems.join("\n")
    );
}

#[test]
fn the_counter_understands_rust() {
    let source = "fn a() {\n  let b = \"}\"; // }\n  let c = '}';\n  let d = r#\"}\"#; /* } */\n}\n\
                  #[cfg(test)]\nmod tests {\n  fn t() {\n  }\n}\nfn e<'a>(x: &'a str) -> char {\n  '{'\n}\ntrait T {\n  fn g();\n}\n";
    let lines = production(code(source));
    assert_eq!(
        functions(&lines),
        [("a".to_owned(), 5), ("e".to_owned(), 3)]
    );
}
