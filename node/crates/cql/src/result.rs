//! From partitions to result rows: selections, aggregates, groups, order, JSON.

use crate::analysis::AggregateCall;
use crate::ast::CellFact;
use crate::binding::{BoundValue, Evaluation};
use crate::error::CqlError;
use crate::expr::RowValues;
use crate::functions::Accumulator;
use crate::select::PreparedSelect;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_rows::{Cell, ColumnData, Partition, Row, RowFilter};
use helenus_schema::{Column, ColumnKind};
use helenus_types::{CqlType, NowInSeconds, composite, elements};
use std::sync::Arc;

/// A partition being walked through.
pub(crate) struct Visit<'a> {
    pub(crate) partition: &'a Partition,
    /// Whether earlier pages returned rows of it.
    pub(crate) resumed: bool,
    pub(crate) now: NowInSeconds,
    pub(crate) filter: &'a RowFilter,
}

impl<'a> Visit<'a> {
    /// The rows to count: live rows; without any, `None` once for live static values.
    pub(crate) fn rows(&self, select: &PreparedSelect) -> Vec<Option<&'a Row>> {
        let live = self
            .partition
            .rows()
            .filter(|row| row.is_live(self.now))
            .map(Some);
        let mut rows: Vec<_> = if select.distinct {
            live.take(1).collect()
        } else {
            live.collect()
        };
        if rows.is_empty()
            && !self.resumed
            && select.returns_static_only()
            && self.partition.static_row.is_live(self.now)
            && self.filter.matches_partition(
                &select.table,
                &self.partition.key,
                &self.partition.static_row,
                self.now,
            )
        {
            rows.push(None);
        }
        rows
    }
}

/// The values of one row as expressions see them.
struct RowContext<'a> {
    columns: &'a [Column],
    key: &'a [Bytes],
    row: Option<&'a Row>,
    static_row: &'a Row,
    now: NowInSeconds,
    aggregates: &'a [Option<Bytes>],
}

impl RowContext<'_> {
    fn data(&self, column: &Column) -> Option<&ColumnData> {
        match column.kind {
            ColumnKind::Static => self.static_row.column(column.id),
            ColumnKind::Regular => self.row?.column(column.id),
            ColumnKind::PartitionKey | ColumnKind::Clustering => None,
        }
    }
}

impl RowValues for RowContext<'_> {
    fn column(&self, index: usize) -> Option<Bytes> {
        let column = self.columns.get(index)?;
        match column.kind {
            ColumnKind::PartitionKey => self.key.get(column.position).cloned(),
            ColumnKind::Clustering => self.row?.clustering.0.get(column.position)?.clone(),
            ColumnKind::Static | ColumnKind::Regular => {
                value_of(self.data(column)?, &column.cql_type, self.now)
            }
        }
    }

    fn fact(
        &self,
        fact: CellFact,
        column: usize,
        multi_cell: bool,
    ) -> Result<Option<Bytes>, CqlError> {
        let Some(column) = self.columns.get(column) else {
            return Ok(None);
        };
        let Some(data) = self.data(column) else {
            return Ok(None);
        };
        let live: Vec<&Cell> = data
            .cells()
            .iter()
            .filter(|cell| cell.is_live(self.now))
            .collect();
        if fact == CellFact::MaxWriteTime {
            let latest = live.iter().map(|cell| cell.timestamp).max();
            return Ok(latest.map(|timestamp| Bytes::copy_from_slice(&timestamp.to_be_bytes())));
        }
        let one = |cell: &Cell| -> Option<Bytes> {
            if fact == CellFact::WriteTime {
                return Some(Bytes::copy_from_slice(&cell.timestamp.to_be_bytes()));
            }
            let left = cell.local_deletion_time - self.now;
            cell.is_expiring().then(|| {
                Bytes::copy_from_slice(&i32::try_from(left).unwrap_or(i32::MAX).to_be_bytes())
            })
        };
        if !multi_cell {
            return Ok(live.first().and_then(|cell| one(cell)));
        }
        if live.is_empty() {
            return Ok(None);
        }
        let mut out = BytesMut::new();
        out.put_i32(i32::try_from(live.len()).unwrap_or(i32::MAX));
        for cell in live {
            elements::put_value(&mut out, one(cell).as_deref())?;
        }
        Ok(Some(out.freeze()))
    }

    fn aggregate(&self, index: usize) -> Option<Bytes> {
        self.aggregates.get(index).cloned().flatten()
    }
}

/// The value of a column's data at `now`.
pub(crate) fn value_of(data: &ColumnData, cql_type: &CqlType, now: NowInSeconds) -> Option<Bytes> {
    let complex = match data {
        ColumnData::Simple(cell) if !cell.is_live(now) => return None,
        ColumnData::Simple(cell) if *cql_type == CqlType::Counter => {
            return Some(counter_total(&cell.value));
        }
        ColumnData::Simple(cell) => return Some(cell.value.clone()),
        ColumnData::Complex(complex) => complex,
    };
    let live: Vec<&Cell> = complex
        .cells
        .iter()
        .filter(|cell| cell.is_live(now))
        .collect();
    if live.is_empty() {
        return None;
    }
    let path = |cell: &Cell| cell.path.clone().unwrap_or_default();
    match cql_type {
        CqlType::List { .. } => {
            let values: Vec<&Bytes> = live.iter().map(|cell| &cell.value).collect();
            elements::write_list(&values).ok()
        }
        CqlType::Set { .. } => {
            elements::write_list(&live.iter().map(|cell| path(cell)).collect::<Vec<_>>()).ok()
        }
        CqlType::Map { .. } => {
            let entries: Vec<_> = live
                .iter()
                .map(|cell| (path(cell), cell.value.clone()))
                .collect();
            elements::write_map(&entries).ok()
        }
        CqlType::Udt(user_type) => {
            let mut fields: Vec<Option<Bytes>> = vec![None; user_type.fields.len()];
            for cell in live {
                let index = cell
                    .path
                    .as_ref()
                    .and_then(|path| <[u8; 2]>::try_from(&path[..]).ok())
                    .map(u16::from_be_bytes);
                if let Some(field) = index.and_then(|index| fields.get_mut(usize::from(index))) {
                    *field = Some(cell.value.clone());
                }
            }
            elements::write_fields(&fields).ok()
        }
        _ => None,
    }
}

/// The sum of a counter's shards: an `i16` count of header entries of two bytes, then shards of 32
/// bytes each: id, clock and count.
fn counter_total(context: &Bytes) -> Bytes {
    let header = context
        .first_chunk::<2>()
        .map_or(0, |count| i16::from_be_bytes(*count));
    let skip = 2 + usize::try_from(header).unwrap_or(0) * 2;
    let shards = context.get(skip..).unwrap_or_default();
    let total = shards.chunks_exact(32).fold(0_i64, |sum, shard| {
        let count = shard[24..].try_into().map_or(0, i64::from_be_bytes);
        sum.wrapping_add(count)
    });
    Bytes::copy_from_slice(&total.to_be_bytes())
}

/// A group being folded.
#[derive(Debug)]
struct Group {
    /// Values of the grouping columns.
    key: Vec<Option<Bytes>>,
    partition_key: Bytes,
    accumulators: Vec<Accumulator>,
    /// Selections of the first row, aggregates left out.
    first: Vec<Option<Bytes>>,
}

/// Collects result rows.
#[derive(Debug)]
pub(crate) struct ResultBuilder {
    select: Arc<PreparedSelect>,
    limit: u32,
    rows: Vec<Vec<Option<Bytes>>>,
    sort_keys: Vec<Vec<Option<Bytes>>>,
    group: Option<Group>,
    /// Groups finished in the current partition.
    groups_in_partition: (Bytes, u32),
    key_cache: Option<(Bytes, Vec<Bytes>)>,
}

impl ResultBuilder {
    pub(crate) fn new(select: &Arc<PreparedSelect>, limit: u32) -> Self {
        Self {
            select: Arc::clone(select),
            limit,
            rows: Vec::new(),
            sort_keys: Vec::new(),
            group: None,
            groups_in_partition: (Bytes::new(), 0),
            key_cache: None,
        }
    }

    fn key_parts(&mut self, visit: &Visit<'_>) -> Vec<Bytes> {
        let key = &visit.partition.key.key;
        if let Some((cached, parts)) = &self.key_cache
            && cached == key
        {
            return parts.clone();
        }
        let parts =
            composite::split(key, self.select.table.partition_key().len()).unwrap_or_default();
        self.key_cache = Some((key.clone(), parts.clone()));
        parts
    }

    /// Takes a row; `None` stands for static values alone.
    pub(crate) fn row(
        &mut self,
        visit: &Visit<'_>,
        row: Option<&Row>,
        evaluation: &Evaluation<'_>,
        per_partition: u32,
    ) -> Result<(), CqlError> {
        let key = self.key_parts(visit);
        let select = Arc::clone(&self.select);
        let context = RowContext {
            columns: &select.fetched,
            key: &key,
            row,
            static_row: &visit.partition.static_row,
            now: visit.now,
            aggregates: &[],
        };
        if select.is_aggregate() {
            return self.fold(
                &context,
                &visit.partition.key.key,
                evaluation,
                per_partition,
            );
        }
        let values = evaluate_all(&select, evaluation, &context)?;
        if !select.sort.is_empty() {
            self.sort_keys.push(
                select
                    .sort
                    .iter()
                    .map(|(column, _)| context.column(*column))
                    .collect(),
            );
        }
        self.rows.push(values);
        Ok(())
    }

    fn fold(
        &mut self,
        context: &RowContext<'_>,
        partition: &Bytes,
        evaluation: &Evaluation<'_>,
        per_partition: u32,
    ) -> Result<(), CqlError> {
        let select = Arc::clone(&self.select);
        let grouping = select.group_by.unwrap_or(0);
        let clustering = context.row.map_or(&[][..], |row| &row.clustering.0[..]);
        let mut key: Vec<Option<Bytes>> = Vec::new();
        if select.group_by.is_some() {
            key.extend(context.key.iter().cloned().map(Some));
            key.extend(
                clustering
                    .iter()
                    .take(grouping.saturating_sub(context.key.len()))
                    .cloned(),
            );
        }
        if self.group.as_ref().is_none_or(|group| group.key != key) {
            self.finish_group(evaluation, per_partition)?;
            self.group = Some(Group {
                key,
                partition_key: partition.clone(),
                accumulators: select.aggregates.iter().map(Accumulator::new).collect(),
                first: evaluate_all(&select, evaluation, context)?,
            });
        }
        let Some(group) = &mut self.group else {
            return Ok(());
        };
        for (AggregateCall { argument, .. }, accumulator) in
            select.aggregates.iter().zip(&mut group.accumulators)
        {
            let value = match argument {
                None => None,
                Some(argument) => match argument.evaluate(evaluation, context)? {
                    BoundValue::Value(bytes) => Some(bytes),
                    BoundValue::Null | BoundValue::Unset => None,
                },
            };
            accumulator.add(value)?;
        }
        Ok(())
    }

    fn finish_group(
        &mut self,
        evaluation: &Evaluation<'_>,
        per_partition: u32,
    ) -> Result<(), CqlError> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        if self.groups_in_partition.0 != group.partition_key {
            self.groups_in_partition = (group.partition_key.clone(), 0);
        }
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if self.rows.len() >= limit || self.groups_in_partition.1 >= per_partition {
            return Ok(());
        }
        self.groups_in_partition.1 += 1;
        let row = self.folded(&group.accumulators, &group.first, evaluation)?;
        self.rows.push(row);
        Ok(())
    }

    /// The row of a group: expressions with aggregates anew, others from the first row.
    fn folded(
        &self,
        accumulators: &[Accumulator],
        first: &[Option<Bytes>],
        evaluation: &Evaluation<'_>,
    ) -> Result<Vec<Option<Bytes>>, CqlError> {
        let results: Vec<Option<Bytes>> = accumulators
            .iter()
            .map(Accumulator::result)
            .collect::<Result<_, _>>()?;
        let empty = Row::default();
        let context = RowContext {
            columns: &[],
            key: &[],
            row: None,
            static_row: &empty,
            now: 0,
            aggregates: &results,
        };
        let mut row = Vec::with_capacity(self.select.selection.len());
        for (at, expr) in self.select.selection.iter().enumerate() {
            if expr.has_aggregate() {
                row.push(match expr.evaluate(evaluation, &context)? {
                    BoundValue::Value(bytes) => Some(bytes),
                    BoundValue::Null | BoundValue::Unset => None,
                });
            } else {
                row.push(first.get(at).cloned().flatten());
            }
        }
        Ok(row)
    }

    /// The rows.
    pub(crate) fn finish(
        mut self,
        evaluation: &Evaluation<'_>,
    ) -> Result<Vec<Vec<Option<Bytes>>>, CqlError> {
        let select = Arc::clone(&self.select);
        if select.is_aggregate() {
            self.finish_group(evaluation, u32::MAX)?;
            if self.rows.is_empty() && select.group_by.is_none() {
                let accumulators: Vec<_> = select.aggregates.iter().map(Accumulator::new).collect();
                let row = self.folded(&accumulators, &[], evaluation)?;
                self.rows.push(row);
            }
        }
        if !select.sort.is_empty() {
            self.sort();
        }
        self.rows
            .truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        if select.json {
            return self
                .rows
                .iter()
                .map(|row| json_row(&select, row).map(|text| vec![Some(text)]))
                .collect();
        }
        Ok(self.rows)
    }

    fn sort(&mut self) {
        let keys = std::mem::take(&mut self.sort_keys);
        let mut rows: Vec<_> = keys
            .into_iter()
            .zip(std::mem::take(&mut self.rows))
            .collect();
        let select = Arc::clone(&self.select);
        rows.sort_by(|(a, _), (b, _)| {
            for ((a, b), (column, descending)) in a.iter().zip(b).zip(&select.sort) {
                let order = match (a, b) {
                    (Some(a), Some(b)) => select
                        .fetched
                        .get(*column)
                        .map_or(a.cmp(b), |column| column.cql_type.compare(a, b)),
                    (a, b) => a.is_some().cmp(&b.is_some()),
                };
                if order.is_ne() {
                    return if *descending { order.reverse() } else { order };
                }
            }
            std::cmp::Ordering::Equal
        });
        self.rows = rows.into_iter().map(|entry| entry.1).collect();
    }
}

fn evaluate_all(
    select: &PreparedSelect,
    evaluation: &Evaluation<'_>,
    context: &RowContext<'_>,
) -> Result<Vec<Option<Bytes>>, CqlError> {
    let mut values = Vec::with_capacity(select.selection.len());
    for expr in &select.selection {
        if expr.has_aggregate() {
            values.push(None);
            continue;
        }
        values.push(match expr.evaluate(evaluation, context)? {
            BoundValue::Value(bytes) => Some(bytes),
            BoundValue::Null | BoundValue::Unset => None,
        });
    }
    Ok(values)
}

fn json_row(select: &PreparedSelect, row: &[Option<Bytes>]) -> Result<Bytes, CqlError> {
    let mut text = String::from("{");
    for (at, (spec, value)) in select.selected.iter().zip(row).enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push('"');
        text.push_str(&helenus_types::json::json_name(&spec.name).replace('"', "\\\""));
        text.push_str("\": ");
        match value {
            None => text.push_str("null"),
            Some(bytes) => text.push_str(&spec.cql_type.to_json(bytes)?),
        }
    }
    text.push('}');
    Ok(Bytes::from(text))
}
