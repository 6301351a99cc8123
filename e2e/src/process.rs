//! Running other programs: every failure says the command line, the status and what the program had to say.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// A command with arguments, ready to run.
pub fn command<I, S>(program: impl AsRef<OsStr>, arguments: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a program and returns what it wrote to its standard output.
pub fn run<I, S>(program: impl AsRef<OsStr>, arguments: I) -> Result<String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    finish(command(program, arguments), None)
}

/// Runs a command, handing `input` to it, and returns its standard output; fails when its status is not 0.
pub fn finish(mut command: Command, input: Option<&str>) -> Result<String> {
    let output = collect(&mut command, input)?;
    if !output.status.success() {
        bail!(
            "{}: {}: {}",
            line_of(&command),
            output.status,
            complaint(&output)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end whatever its status.
pub fn collect(command: &mut Command, input: Option<&str>) -> Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    let mut child = command
        .spawn()
        .with_context(|| format!("start {}", line_of(command)))?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        // a program that fails early closes its end; its status tells why
        if let Err(error) = pipe.write_all(text.as_bytes())
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            return Err(error).with_context(|| format!("write to {}", line_of(command)));
        }
    }
    child
        .wait_with_output()
        .with_context(|| format!("run {}", line_of(command)))
}

/// Whether a program can be found and, asked for its version, answers.
pub fn succeeds<I, S>(program: impl AsRef<OsStr>, arguments: I) -> bool
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    collect(&mut command(program, arguments), None).is_ok_and(|output| output.status.success())
}

/// The command line, for people.
pub fn line_of(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// The end of what a failed program said.
fn complaint(output: &Output) -> String {
    let said = if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text.trim().lines().collect();
    let start = lines.len().saturating_sub(20);
    lines[start..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_command_and_reason() {
        let error = run("sh", ["-c", "echo reason >&2; exit 3"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sh -c") && error.contains("exit status: 3") && error.contains("reason"),
            "{error}"
        );
    }

    #[test]
    fn input_reaches_the_program() {
        assert_eq!(finish(Command::new("cat"), Some("hello")).unwrap(), "hello");
        // one that does not read it
        assert_eq!(
            finish(Command::new("true"), Some(&"x".repeat(1 << 20))).unwrap(),
            ""
        );
    }
}
