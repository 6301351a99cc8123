//! Progress lines and waiting: a person always sees what is being waited for and for how long.

use anyhow::{Result, bail};
use std::thread;
use std::time::{Duration, Instant};

/// How often a wait that lasts says so.
const REMIND_EVERY: Duration = Duration::from_secs(10);
/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Prints one progress line with the time of day (UTC).
pub fn say(text: &str) {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    eprintln!(
        "[{:02}:{:02}:{:02}] {text}",
        now / 3600 % 24,
        now / 60 % 60,
        now % 60
    );
}

/// What one look at a condition gave.
pub enum Look<T> {
    /// The condition holds.
    Done(T),
    /// Not yet; the text says how things stand.
    Waiting(String),
}

/// Waits until `look` is done; says every ten seconds how things stand; fails after `limit`.
///
/// An error of `look` counts as “not yet”, because servers come up behind it; the last one is told on failure.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Look<T>>,
) -> Result<T> {
    let start = Instant::now();
    let mut reminded = start;
    loop {
        let state = match look() {
            Ok(Look::Done(value)) => {
                if reminded > start {
                    say(&format!(
                        "{what}: after {:.0} s",
                        start.elapsed().as_secs_f64()
                    ));
                }
                return Ok(value);
            }
            Ok(Look::Waiting(state)) => state,
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > limit {
            bail!(
                "{what}: not so after {} s; last seen: {state}",
                limit.as_secs()
            );
        }
        if reminded.elapsed() > REMIND_EVERY {
            reminded = Instant::now();
            say(&format!(
                "waiting for {what}, {:.0} s: {state}",
                start.elapsed().as_secs_f64()
            ));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// [`wait_for`] for a condition that is only true or false.
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    wait_for(what, limit, || {
        Ok(if holds()? {
            Look::Done(())
        } else {
            Look::Waiting("not yet".into())
        })
    })
}

/// Measures a step and says how long it took.
pub struct Step {
    what: String,
    start: Instant,
}

impl Step {
    /// Says that `what` begins.
    pub fn begin(what: &str) -> Self {
        say(&format!("{what} ..."));
        Self {
            what: what.to_owned(),
            start: Instant::now(),
        }
    }

    /// Says that it is done, and after how many seconds.
    pub fn done(self) {
        say(&format!(
            "{}: done in {:.1} s",
            self.what,
            self.start.elapsed().as_secs_f64()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_fails_tells_the_last_state() {
        let error = wait_for::<()>("the moon", Duration::ZERO, || {
            Ok(Look::Waiting("half".into()))
        })
        .unwrap_err();
        assert!(
            error.to_string().contains("the moon") && error.to_string().contains("half"),
            "{error}"
        );
    }

    #[test]
    fn errors_count_as_not_yet() {
        let mut looks = 0;
        wait_until("third time", Duration::from_secs(10), || {
            looks += 1;
            anyhow::ensure!(looks > 2, "too early");
            Ok(true)
        })
        .unwrap();
        assert_eq!(looks, 3);
    }
}
