//! Range deletions of one partition as a step function over its clusterings: at each place of the
//! map the deletion in force changes. The strongest deletion wins wherever ranges overlap.

use super::position::{ClusteringOrder, Position};
use helenus_rows::{DeletionTime, RangeTombstoneMarker, Slice};
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::Bound;
use std::sync::Arc;

/// The range deletions of a partition. Before the first place and after the last nothing is deleted;
/// neighbouring steps differ.
#[derive(Debug, Default)]
pub struct RangeDeletions {
    steps: BTreeMap<Position, DeletionTime>,
}

impl RangeDeletions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Count of places where the deletion changes.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// The deletion in force just after a place.
    fn after(&self, place: &Position) -> DeletionTime {
        self.steps
            .range(..=place)
            .next_back()
            .map_or(DeletionTime::LIVE, |(_, deletion)| *deletion)
    }

    /// The deletion in force just before a place.
    fn before(&self, place: &Position) -> DeletionTime {
        self.steps
            .range(..place)
            .next_back()
            .map_or(DeletionTime::LIVE, |(_, deletion)| *deletion)
    }

    /// Lays a deletion over the places from `start` to `end`.
    pub fn add(&mut self, start: Position, end: Position, deletion: DeletionTime) {
        if deletion.is_live() || start >= end {
            return;
        }
        let (previous, at_start, at_end) =
            (self.before(&start), self.after(&start), self.after(&end));
        let mut last = previous;
        let mut obsolete = Vec::new();
        let within = self
            .steps
            .range_mut((Bound::Excluded(&start), Bound::Excluded(&end)));
        let first = at_start.max(deletion);
        if first != last {
            last = first;
        }
        for (place, step) in within {
            *step = step.max(deletion);
            if *step == last {
                obsolete.push(place.clone());
            }
            last = *step;
        }
        for place in obsolete {
            self.steps.remove(&place);
        }
        if at_end == last {
            self.steps.remove(&end);
        } else {
            self.steps.insert(end, at_end);
        }
        if first == previous {
            self.steps.remove(&start);
        } else {
            self.steps.insert(start, first);
        }
    }

    /// The deletions between two places in clustering order, cut to them.
    pub fn slice<'a>(
        &'a self,
        slice: &Slice,
        order: &Arc<ClusteringOrder>,
        reversed: bool,
    ) -> Markers<'a> {
        let start = Position::of_bound(&slice.start, order);
        let end = Position::of_bound(&slice.end, order);
        if self.steps.is_empty() || start >= end {
            return Markers {
                steps: btree_map::Range::default(),
                from: None,
                to: None,
                open: DeletionTime::LIVE,
                first: DeletionTime::LIVE,
                reversed,
            };
        }
        let first = self.after(&start);
        let open = if reversed { self.before(&end) } else { first };
        let steps = self
            .steps
            .range((Bound::Excluded(start.clone()), Bound::Excluded(end.clone())));
        let (from, to) = if reversed { (end, start) } else { (start, end) };
        Markers {
            steps,
            from: Some(from),
            to: Some(to),
            open,
            first,
            reversed,
        }
    }

    /// The deletion over a row.
    pub fn at(&self, row: &Position) -> DeletionTime {
        if self.steps.is_empty() {
            DeletionTime::LIVE
        } else {
            self.before(row)
        }
    }
}

/// The markers of one slice in the order of reading, with their places.
pub struct Markers<'a> {
    steps: btree_map::Range<'a, Position, DeletionTime>,
    /// Where the slice is entered, until it is.
    from: Option<Position>,
    /// Where it is left, until it is.
    to: Option<Position>,
    /// The deletion in force where the slice starts in clustering order.
    first: DeletionTime,
    /// The deletion in force.
    open: DeletionTime,
    reversed: bool,
}

impl Iterator for Markers<'_> {
    type Item = (Position, RangeTombstoneMarker);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(from) = self.from.take()
            && let Some(marker) = marker(&from, DeletionTime::LIVE, self.open, self.reversed)
        {
            return Some((from, marker));
        }
        loop {
            let step = if self.reversed {
                self.steps.next_back()
            } else {
                self.steps.next()
            };
            let Some((place, after)) = step else { break };
            let next = if self.reversed {
                self.deletion_before_last()
            } else {
                *after
            };
            let before = std::mem::replace(&mut self.open, next);
            if let Some(marker) = marker(place, before, next, self.reversed) {
                return Some((place.clone(), marker));
            }
        }
        let to = self.to.take()?;
        let marker = marker(&to, self.open, DeletionTime::LIVE, self.reversed)?;
        Some((to, marker))
    }
}

impl Markers<'_> {
    /// Going backward: the deletion in force before the step just taken.
    fn deletion_before_last(&self) -> DeletionTime {
        self.steps
            .clone()
            .next_back()
            .map_or(self.first, |(_, deletion)| *deletion)
    }
}

fn marker(
    place: &Position,
    before: DeletionTime,
    after: DeletionTime,
    reversed: bool,
) -> Option<RangeTombstoneMarker> {
    RangeTombstoneMarker::between(
        place.values().to_vec(),
        place.is_before_rows(),
        before,
        after,
        reversed,
    )
}
