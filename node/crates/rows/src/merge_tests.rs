//! Merging in any order and any grouping gives what a plain map of cells gives (R3).

use crate::clustering::{Clustering, ClusteringBound, PrefixKind};
use crate::limits::Purger;
use crate::{
    Cell, DeletionTime, LivenessInfo, Partition, RangeTombstoneMarker, Row, Unfiltered,
    merge_partitions,
};
use bytes::Bytes;
use helenus_schema::{TableId, TableMetadata};
use helenus_seams::{Entropy, SeededEntropy};
use helenus_types::{CqlType, DecoratedKey};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

const NOW: i64 = 1000;
const ROWS: usize = 8;

fn table() -> TableMetadata {
    TableMetadata::builder("k", "t", TableId(Uuid::nil()))
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .regular("v", CqlType::Int)
        .regular(
            "s",
            CqlType::Set {
                element: Arc::new(CqlType::Int),
                frozen: false,
            },
        )
        .build()
}

fn int(value: usize) -> Bytes {
    Bytes::copy_from_slice(&i32::try_from(value).unwrap().to_be_bytes())
}

/// Timestamps of everything about one row.
#[derive(Debug, Clone, Default)]
struct ModelRow {
    deleted: i64,
    inserted: (i64, i64),
    cells: BTreeMap<(usize, usize), Cell>,
    set_deleted: i64,
}

type Model = BTreeMap<usize, ModelRow>;

fn add(model: &mut Model, c: usize, at: (usize, usize), cell: &Cell) {
    let cells = &mut model.entry(c).or_default().cells;
    let merged = cells
        .remove(&at)
        .map_or_else(|| cell.clone(), |present| present.reconcile(cell.clone()));
    cells.insert(at, merged);
}

fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime {
        marked_for_delete_at: timestamp,
        local_deletion_time: NOW,
    }
}

/// A random operation as a partition of its own, and in the model.
fn operation(table: &TableMetadata, model: &mut Model, random: &SeededEntropy) -> Partition {
    let timestamp = i64::try_from(random.below(12)).unwrap() + 1;
    let c = random.below(ROWS);
    let mut partition = Partition::new(DecoratedKey::new(int(1)));
    let mut row = Row::new(Clustering(vec![Some(int(c))]));
    let (v, s) = (table.column("v").unwrap().id, table.column("s").unwrap().id);
    let ttl = [0, 0, 5, 50][random.below(4)];
    // written at 980: a TTL of 5 has expired, one of 50 has not
    let live = |path, value| Cell::live(timestamp, ttl, 980, path, value);
    match random.below(12) {
        0 => {
            partition.deletion = deletion(timestamp);
            (0..ROWS).for_each(|c| raise(&mut model.entry(c).or_default().deleted, timestamp));
            return partition;
        }
        1..=3 => {
            let to = (c + random.below(4)).min(ROWS - 1);
            (c..=to).for_each(|c| raise(&mut model.entry(c).or_default().deleted, timestamp));
            let bound = |kind, c| ClusteringBound {
                kind,
                values: vec![Some(int(c))],
            };
            let marker =
                |bound, end, start| Unfiltered::Marker(RangeTombstoneMarker { bound, end, start });
            let deleted = Some(deletion(timestamp));
            partition.unfiltereds = vec![
                marker(bound(PrefixKind::InclusiveStart, c), None, deleted),
                marker(bound(PrefixKind::InclusiveEnd, to), deleted, None),
            ];
            return partition;
        }
        4 => {
            row.deletion = deletion(timestamp);
            raise(&mut model.entry(c).or_default().deleted, timestamp);
        }
        5 => {
            row.add_complex_deletion(table, s, deletion(timestamp));
            raise(&mut model.entry(c).or_default().set_deleted, timestamp);
        }
        6 | 7 => {
            let element = random.below(3);
            let cell = if random.below(4) == 0 {
                Cell::tombstone(timestamp, NOW, Some(int(element)))
            } else {
                live(Some(int(element)), Bytes::new())
            };
            add(model, c, (1, element), &cell);
            row.add_cell(table, s, cell);
        }
        8 => {
            let cell = Cell::tombstone(timestamp, NOW, None);
            add(model, c, (0, 0), &cell);
            row.add_cell(table, v, cell);
        }
        _ => {
            row.liveness = LivenessInfo::new(timestamp, ttl, 980);
            let inserted = (timestamp, if ttl == 0 { 0 } else { 980 + i64::from(ttl) });
            let known = &mut model.entry(c).or_default().inserted;
            *known = (*known).max(inserted);
            let cell = live(None, int(random.below(9)));
            add(model, c, (0, 0), &cell);
            row.add_cell(table, v, cell);
        }
    }
    partition.unfiltereds.push(Unfiltered::Row(row));
    partition
}

fn raise(present: &mut i64, timestamp: i64) {
    *present = timestamp.max(*present);
}

/// Live cells by row; a row that lives without cells is there too.
fn expected(model: &Model) -> BTreeMap<usize, Vec<Cell>> {
    let mut live = BTreeMap::new();
    for (c, row) in model {
        let (inserted, expires) = row.inserted;
        let lives = inserted > row.deleted && (expires == 0 || NOW < expires);
        let cells: Vec<Cell> = row
            .cells
            .iter()
            .filter(|((column, _), cell)| {
                let deleted = if *column == 1 {
                    row.deleted.max(row.set_deleted)
                } else {
                    row.deleted
                };
                cell.timestamp > deleted && cell.is_live(NOW)
            })
            .map(|(_, cell)| cell.clone())
            .collect();
        if lives || !cells.is_empty() {
            live.insert(*c, cells);
        }
    }
    live
}

fn found(
    partition: Option<Partition>,
    table: &TableMetadata,
    reversed: bool,
) -> BTreeMap<usize, Vec<Cell>> {
    let Some(partition) = partition else {
        return BTreeMap::new();
    };
    let places: Vec<_> = partition.rows().map(|row| row.clustering.clone()).collect();
    assert!(places.windows(2).all(|pair| {
        let order = pair[0].compare(&pair[1], table);
        if reversed {
            order.is_gt()
        } else {
            order.is_lt()
        }
    }));
    let mut open = None;
    for unfiltered in &partition.unfiltereds {
        if let Unfiltered::Marker(marker) = unfiltered {
            assert_eq!(marker.closes(reversed), open, "markers fit each other");
            open = marker.opens(reversed);
        }
    }
    assert_eq!(open, None, "every range is closed");
    let purger = Purger::everything(NOW);
    let rows = partition
        .unfiltereds
        .into_iter()
        .filter_map(|one| purger.unfiltered(one));
    rows.filter_map(|one| match one {
        Unfiltered::Row(row) => Some(row),
        Unfiltered::Marker(_) => None,
    })
    .map(|row| {
        let c = i32::from_be_bytes(
            row.clustering.0[0].as_ref().unwrap()[..]
                .try_into()
                .unwrap(),
        );
        let mut columns = row.columns.clone();
        columns.sort_by_key(|(id, _)| table.column_by_id(*id).unwrap().name != "v");
        (
            usize::try_from(c).unwrap(),
            columns
                .iter()
                .flat_map(|(_, data)| data.cells().to_vec())
                .collect(),
        )
    })
    .collect()
}

fn reverse(mut partition: Partition) -> Partition {
    partition.unfiltereds.reverse();
    partition
}

#[test]
fn any_grouping_gives_what_a_map_of_cells_gives() {
    let table = table();
    for seed in 0..2000 {
        let random = SeededEntropy::new(seed);
        let mut model = Model::new();
        let operations: Vec<Partition> = (0..random.below(25))
            .map(|_| operation(&table, &mut model, &random))
            .collect();
        let wanted = expected(&model);
        let flat = merge_partitions(&table, operations.clone(), false);
        assert_eq!(found(flat.clone(), &table, false), wanted, "seed {seed}");
        let mut groups: Vec<Vec<Partition>> = vec![Vec::new(); 4];
        for operation in operations.iter().rev() {
            groups[random.below(4)].push(operation.clone());
        }
        let grouped: Vec<Partition> = groups
            .into_iter()
            .filter_map(|group| merge_partitions(&table, group, false))
            .collect();
        assert_eq!(
            merge_partitions(&table, grouped.clone(), false),
            flat,
            "grouping matters, seed {seed}"
        );
        let reversed =
            merge_partitions(&table, grouped.iter().cloned().map(reverse).collect(), true);
        assert_eq!(
            found(reversed.clone(), &table, true),
            wanted,
            "reversed, seed {seed}"
        );
        assert_eq!(reversed.map(reverse), flat, "reversed differs, seed {seed}");
        if let Some(flat) = flat {
            let twice = merge_partitions(&table, vec![flat.clone(), flat.clone()], false);
            assert_eq!(twice, Some(flat), "not idempotent, seed {seed}");
        }
    }
}
