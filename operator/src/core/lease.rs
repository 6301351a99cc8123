//! Leader election by a Lease: when to take it, when to renew it, and until when one may act.
//!
//! Clocks of two machines are never compared: a lease is expired when its record has not changed for
//! its duration on our own monotonic clock, and we act only while our last renewal is younger than
//! two thirds of it.

/// A Lease as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty when released.
    pub holder: String,
    /// When it was renewed, as its holder wrote it; only compared for equality.
    pub renewed: String,
    /// How often it changed hands.
    pub transitions: i32,
}

/// What to do about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Make it.
    Create,
    /// Take it over, if it is still as read.
    Take,
    /// Renew it, if it is still as read.
    Renew,
    /// Someone else leads.
    Wait,
}

/// One replica's view of the election. Times are milliseconds of a monotonic clock.
#[derive(Debug)]
pub struct Election {
    identity: String,
    duration_ms: u64,
    seen: Option<(Record, u64)>,
    renewed_at_ms: Option<u64>,
}

impl Election {
    /// A replica that does not lead.
    pub fn new(identity: impl Into<String>, duration_ms: u64) -> Self {
        Self {
            identity: identity.into(),
            duration_ms,
            seen: None,
            renewed_at_ms: None,
        }
    }

    /// Decides after the Lease was read.
    pub fn decide(&mut self, now_ms: u64, record: Option<&Record>) -> Act {
        let Some(record) = record else {
            self.seen = None;
            return Act::Create;
        };
        let since = match &self.seen {
            Some((before, since)) if before == record => *since,
            _ => now_ms,
        };
        self.seen = Some((record.clone(), since));
        if record.holder == self.identity {
            Act::Renew
        } else if record.holder.is_empty() || now_ms.saturating_sub(since) >= self.duration_ms {
            Act::Take
        } else {
            Act::Wait
        }
    }

    /// A write that began at `began_ms` succeeded: we hold the Lease.
    pub fn held(&mut self, began_ms: u64) {
        self.renewed_at_ms = Some(began_ms);
    }

    /// The Lease is known to be someone else's.
    pub fn lost(&mut self) {
        self.renewed_at_ms = None;
    }

    /// We may act as leader.
    pub fn leads(&self, now_ms: u64) -> bool {
        self.renewed_at_ms
            .is_some_and(|at| now_ms.saturating_sub(at) < self.duration_ms / 3 * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, renewed: &str) -> Record {
        Record {
            holder: holder.to_owned(),
            renewed: renewed.to_owned(),
            transitions: 0,
        }
    }

    #[test]
    fn absent_released_and_own_leases_are_taken_at_once() {
        let mut me = Election::new("me", 15_000);
        assert_eq!(me.decide(0, None), Act::Create);
        assert_eq!(me.decide(0, Some(&record("", "1"))), Act::Take);
        assert_eq!(me.decide(0, Some(&record("me", "1"))), Act::Renew);
    }

    #[test]
    fn a_foreign_lease_is_taken_only_after_it_stood_still_for_its_duration() {
        let mut me = Election::new("me", 15_000);
        assert_eq!(me.decide(100, Some(&record("you", "1"))), Act::Wait);
        assert_eq!(me.decide(14_000, Some(&record("you", "2"))), Act::Wait);
        assert_eq!(me.decide(28_999, Some(&record("you", "2"))), Act::Wait);
        assert_eq!(me.decide(29_000, Some(&record("you", "2"))), Act::Take);
    }

    #[test]
    fn a_holder_stops_before_another_may_take_over() {
        let mut me = Election::new("me", 15_000);
        assert!(!me.leads(0));
        me.held(1_000);
        assert!(me.leads(10_999));
        assert!(!me.leads(11_000));
        me.lost();
        assert!(!me.leads(1_000));
    }

    /// Two replicas under random delays and failed writes: never two that may act.
    #[test]
    fn never_two_leaders() {
        use proptest::prelude::*;
        proptest!(|(steps in prop::collection::vec((0_usize..2, 0_u64..9_000, any::<bool>()), 1..200))| {
            let mut replicas = [Election::new("a", 15_000), Election::new("b", 15_000)];
            let mut stored: Option<Record> = None;
            let mut now = 0;
            for (who, wait, works) in steps {
                now += wait;
                let act = replicas[who].decide(now, stored.as_ref());
                if act == Act::Wait {
                    replicas[who].lost();
                } else if works {
                    stored = Some(record(["a", "b"][who], &now.to_string()));
                    replicas[who].held(now);
                }
                prop_assert!(!(replicas[0].leads(now) && replicas[1].leads(now)));
            }
        });
    }
}
