//! Counting answers towards a consistency level. Pure.

use crate::error::FailureReason;
use helenus_types::Endpoint;
use std::sync::Arc;

/// Answers needed from one group of replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Only answers from this data center count; `None`: all count.
    pub datacenter: Option<Arc<str>>,
    /// How many.
    pub count: usize,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More answers are needed and may come.
    Waiting,
    /// The level is reached.
    Reached,
    /// It cannot be reached any more.
    Hopeless,
}

#[derive(Debug)]
struct Group {
    need: Need,
    received: usize,
    outstanding: usize,
}

/// Counts answers of the replicas that were asked.
#[derive(Debug)]
pub struct Tally {
    groups: Vec<Group>,
    failures: Vec<(Endpoint, FailureReason)>,
}

impl Tally {
    /// Nothing was asked yet.
    pub fn new(needs: Vec<Need>) -> Self {
        let groups = needs
            .into_iter()
            .map(|need| Group {
                need,
                received: 0,
                outstanding: 0,
            })
            .collect();
        Self {
            groups,
            failures: Vec::new(),
        }
    }

    fn groups_of<'a>(&'a mut self, datacenter: &'a str) -> impl Iterator<Item = &'a mut Group> {
        self.groups.iter_mut().filter(move |group| {
            group
                .need
                .datacenter
                .as_deref()
                .is_none_or(|wanted| wanted == datacenter)
        })
    }

    /// A replica of this data center was asked.
    pub fn asked(&mut self, datacenter: &str) {
        self.groups_of(datacenter)
            .for_each(|group| group.outstanding += 1);
    }

    /// It answered.
    pub fn answered(&mut self, datacenter: &str) {
        self.groups_of(datacenter).for_each(|group| {
            group.received += 1;
            group.outstanding = group.outstanding.saturating_sub(1);
        });
    }

    /// It refused, or will not answer.
    pub fn failed(&mut self, datacenter: &str, endpoint: Endpoint, reason: FailureReason) {
        self.groups_of(datacenter)
            .for_each(|group| group.outstanding = group.outstanding.saturating_sub(1));
        self.failures.push((endpoint, reason));
    }

    /// Where the request stands.
    pub fn progress(&self) -> Progress {
        if self
            .groups
            .iter()
            .all(|group| group.received >= group.need.count)
        {
            Progress::Reached
        } else if self
            .groups
            .iter()
            .any(|group| group.received + group.outstanding < group.need.count)
        {
            Progress::Hopeless
        } else {
            Progress::Waiting
        }
    }

    /// Answers that count.
    pub fn received(&self) -> usize {
        self.groups.iter().map(|group| group.received).sum()
    }

    /// Answers needed in all.
    pub fn required(&self) -> usize {
        self.groups.iter().map(|group| group.need.count).sum()
    }

    /// Refusals other than timeouts.
    pub fn refusals(&self) -> Vec<(Endpoint, FailureReason)> {
        self.failures
            .iter()
            .filter(|(_, reason)| *reason != FailureReason::Timeout)
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn each_group_must_be_reached() {
        let need = |dc: &str, count| Need {
            datacenter: Some(dc.into()),
            count,
        };
        let mut tally = Tally::new(vec![need("east", 2), need("west", 1)]);
        for dc in ["east", "east", "west", "west"] {
            tally.asked(dc);
        }
        tally.answered("east");
        tally.answered("west");
        assert_eq!(tally.progress(), Progress::Waiting);
        let endpoint = Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7000);
        tally.failed("west", endpoint, FailureReason::Unknown);
        assert_eq!(tally.progress(), Progress::Waiting);
        tally.failed("east", endpoint, FailureReason::Timeout);
        assert_eq!(tally.progress(), Progress::Hopeless);
        assert_eq!(
            (tally.received(), tally.required(), tally.refusals().len()),
            (2, 3, 1)
        );
    }
}
