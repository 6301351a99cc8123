//! Merging what several replicas returned: the newest data, how far it can be trusted, and what
//! each replica lacks. Pure.

use helenus_rows::merge::merge_partitions;
use helenus_rows::{
    Clustering, DataLimits, Mutation, Partition, PartitionUpdate, ReadCommand, ReadKind, Row,
    Unfiltered,
};
use helenus_schema::TableMetadata;
use helenus_types::{DecoratedKey, NowInSeconds};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The merged answer of several replicas.
#[derive(Debug)]
pub struct Resolved {
    /// Partitions in ring order, newest data of all replicas.
    pub partitions: Vec<Partition>,
    /// For each replica in the order given: what to write to it, so that it holds what was merged.
    pub repairs: Vec<Vec<Mutation>>,
    /// A replica stopped at its limit and merging left too few rows: ask again for more.
    pub short: bool,
}

/// Whether rows are returned in reverse clustering order.
pub fn is_reversed(command: &ReadCommand) -> bool {
    match &command.kind {
        ReadKind::Partition { filter, .. } => filter.is_reversed(),
        ReadKind::Range(range) => range.filter.is_reversed(),
    }
}

/// Merges the answers of replicas to one command.
pub fn resolve(command: &ReadCommand, answers: &[Vec<Partition>]) -> Resolved {
    let reversed = is_reversed(command);
    let mut by_key: BTreeMap<&DecoratedKey, Vec<&Partition>> = BTreeMap::new();
    for partition in answers.iter().flatten() {
        by_key.entry(&partition.key).or_default().push(partition);
    }
    let mut partitions: Vec<Partition> = by_key
        .values()
        .filter_map(|versions| {
            merge_partitions(
                &command.table,
                versions.iter().map(|p| (*p).clone()).collect(),
                reversed,
            )
        })
        .collect();
    let trusted = answers
        .iter()
        .filter(|answer| hit_limit(answer, &command.limits, command.now_in_seconds))
        .filter_map(|answer| last_position(answer))
        .min_by(|a, b| compare_positions(a, b, &command.table, reversed));
    let mut short = false;
    if let Some(end) = &trusted {
        truncate_after(&mut partitions, end, &command.table, reversed);
        short = live_rows(&partitions, &command.limits, command.now_in_seconds)
            < u64::from(command.limits.rows);
    }
    let repairs = answers
        .iter()
        .map(|answer| repairs_of(command, &partitions, answer))
        .collect();
    Resolved {
        partitions,
        repairs,
        short,
    }
}

/// The place of the last row of an answer; no clustering: the end of that partition.
type Position = (DecoratedKey, Option<Clustering>);

fn last_position(answer: &[Partition]) -> Option<Position> {
    let partition = answer.last()?;
    Some((
        partition.key.clone(),
        partition.rows().last().map(|row| row.clustering.clone()),
    ))
}

fn compare_rows(a: &Clustering, b: &Clustering, table: &TableMetadata, reversed: bool) -> Ordering {
    let order = a.compare(b, table);
    if reversed { order.reverse() } else { order }
}

fn compare_positions(
    a: &Position,
    b: &Position,
    table: &TableMetadata,
    reversed: bool,
) -> Ordering {
    a.0.cmp(&b.0).then_with(|| match (&a.1, &b.1) {
        (Some(a), Some(b)) => compare_rows(a, b, table, reversed),
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    })
}

fn truncate_after(
    partitions: &mut Vec<Partition>,
    end: &Position,
    table: &TableMetadata,
    reversed: bool,
) {
    partitions.retain(|partition| partition.key <= end.0);
    let Some(last) = partitions
        .last_mut()
        .filter(|partition| partition.key == end.0)
    else {
        return;
    };
    if let Some(clustering) = &end.1 {
        // markers stay: a range deletion beyond the end deletes nothing that is kept
        last.unfiltereds.retain(|unfiltered| match unfiltered {
            Unfiltered::Row(row) => {
                compare_rows(&row.clustering, clustering, table, reversed).is_le()
            }
            Unfiltered::Marker(_) => true,
        });
    }
}

/// Rows that count towards the limits.
pub fn live_rows(partitions: &[Partition], limits: &DataLimits, now: NowInSeconds) -> u64 {
    partitions
        .iter()
        .map(|partition| {
            let live = partition.rows().filter(|row| row.is_live(now)).count() as u64;
            let with_static = if live == 0 && partition.static_row.is_live(now) {
                1
            } else {
                live
            };
            with_static.min(if limits.distinct {
                1
            } else {
                u64::from(limits.per_partition)
            })
        })
        .sum()
}

fn hit_limit(answer: &[Partition], limits: &DataLimits, now: NowInSeconds) -> bool {
    limits.rows != u32::MAX && live_rows(answer, limits, now) >= u64::from(limits.rows)
}

fn repairs_of(command: &ReadCommand, merged: &[Partition], answer: &[Partition]) -> Vec<Mutation> {
    merged
        .iter()
        .filter_map(|partition| {
            let present = answer
                .iter()
                .find(|candidate| candidate.key == partition.key);
            let missing = missing_in(partition, present, &command.table);
            (!missing.is_empty()).then(|| {
                Mutation::of(PartitionUpdate {
                    table: std::sync::Arc::clone(&command.table),
                    partition: missing,
                })
            })
        })
        .collect()
}

/// What `merged` says that `present` does not, as an update in clustering order.
fn missing_in(merged: &Partition, present: Option<&Partition>, table: &TableMetadata) -> Partition {
    let mut missing = Partition::new(merged.key.clone());
    let nothing = Partition::new(merged.key.clone());
    let present = present.unwrap_or(&nothing);
    if merged.deletion != present.deletion {
        missing.deletion = merged.deletion;
    }
    if merged.static_row != present.static_row {
        missing.static_row = merged.static_row.clone();
    }
    let mut known: Vec<&Row> = present.rows().collect();
    known.sort_by(|a, b| a.clustering.compare(&b.clustering, table));
    let markers = |partition: &Partition| -> Vec<Unfiltered> {
        partition
            .unfiltereds
            .iter()
            .filter(|u| matches!(u, Unfiltered::Marker(_)))
            .cloned()
            .collect()
    };
    let same_markers = markers(merged) == markers(present);
    for unfiltered in &merged.unfiltereds {
        let lacks = match unfiltered {
            Unfiltered::Marker(_) => !same_markers,
            Unfiltered::Row(row) => {
                match known.binary_search_by(|candidate| {
                    candidate.clustering.compare(&row.clustering, table)
                }) {
                    Ok(at) => known[at] != row,
                    Err(_) => !row.is_empty(),
                }
            }
        };
        if lacks {
            missing.unfiltereds.push(unfiltered.clone());
        }
    }
    in_clustering_order(&mut missing, table);
    missing
}

/// Updates always go forward; a reversed read returned its rows backward.
fn in_clustering_order(partition: &mut Partition, table: &TableMetadata) {
    let columns = table.clustering();
    let descending = partition.unfiltereds.windows(2).any(|pair| {
        let ((a_kind, a), (b_kind, b)) = (pair[0].prefix(), pair[1].prefix());
        helenus_rows::clustering::compare_prefixes(a_kind, a, b_kind, b, columns).is_gt()
    });
    if descending {
        partition.unfiltereds.reverse();
    }
}
