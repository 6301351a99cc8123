//! Reading the logs of nodes: the last lines for a failure, and WARN and ERROR lines that nobody expects.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// The last lines of a file, or why it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("({}: {error})", path.display()),
    }
}

/// The WARN and ERROR lines of a log of ours in which no allowed text occurs. Panics are always among them.
pub fn unexpected_lines(text: &str, allowed: &[&str]) -> Vec<String> {
    text.lines()
        .filter(|line| is_alarm(line))
        .filter(|line| {
            line.contains("panicked at") || !allowed.iter().any(|part| line.contains(part))
        })
        .map(str::to_owned)
        .collect()
}

/// Fail when a log holds a WARN or ERROR line in which no allowed text occurs.
pub fn check(path: &Path, allowed: &[&str]) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| format!("read the log {}", path.display()))?;
    let lines = unexpected_lines(&String::from_utf8_lossy(&bytes), allowed);
    if !lines.is_empty() {
        bail!(
            "{} WARN or ERROR lines that are not on the test's list in {}:\n{}",
            lines.len(),
            path.display(),
            lines.join("\n")
        );
    }
    Ok(())
}

/// Text and JSON forms of `tracing`, and the line a panic prints.
fn is_alarm(line: &str) -> bool {
    let plain = line
        .split_whitespace()
        .take(4)
        .any(|word| matches!(word, "WARN" | "ERROR"));
    plain
        || line.contains("\"level\":\"WARN\"")
        || line.contains("\"level\":\"ERROR\"")
        || line.contains("panicked at")
}

#[cfg(test)]
mod tests {
    use super::unexpected_lines;

    #[test]
    fn alarms_are_found_unless_listed() {
        let log = "2026-01-01T00:00:00Z  INFO started\n2026-01-01T00:00:00Z  WARN jvm option ignored\n\
                   {\"level\":\"ERROR\",\"fields\":{\"message\":\"disk\"}}\nthread 'x' panicked at y: jvm option\n\
                   2026-01-01T00:00:00Z  INFO a message with WARN in it later on\n";
        let found = unexpected_lines(log, &["jvm option"]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("ERROR") && found[1].contains("panicked"));
    }
}
