//! Changes of lists that depend on what is stored: elements by index, and elements by value. The rows
//! are read first, at the consistency level of the write, and come back in [`Existing`].

use super::{Body, Change, Operation, PreparedModification};
use crate::binding::{BoundValue, Evaluation};
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use bytes::Bytes;
use helenus_rows::{
    Cell, ClusteringFilter, ColumnFilter, DataLimits, Partition, ReadCommand, ReadKind, Row,
    RowFilter,
};
use helenus_schema::TableMetadata;
use helenus_types::{DecoratedKey, elements};
use std::sync::Arc;

/// What was read before a write: the merged partitions of the commands of `Prepared::required_reads`.
#[derive(Debug, Clone, Default)]
pub struct Existing {
    partitions: Vec<(Arc<TableMetadata>, Partition)>,
}

impl Existing {
    /// Of the commands and their answers, in the same order.
    pub fn new(commands: &[ReadCommand], answers: Vec<Vec<Partition>>) -> Self {
        let partitions = commands.iter().zip(answers).flat_map(|(command, answer)| {
            answer
                .into_iter()
                .map(|partition| (Arc::clone(&command.table), partition))
        });
        Self {
            partitions: partitions.collect(),
        }
    }

    /// Live cells of a column in the row of `place`, of whatever read has it.
    fn cells(&self, place: &Place<'_>, operation: &Operation, row: &Row, now: i64) -> Vec<Cell> {
        let partitions = self
            .partitions
            .iter()
            .filter(|(table, partition)| table.id == place.table.id && partition.key == *place.key);
        for (_, partition) in partitions {
            let found = if operation.is_static {
                Some(&partition.static_row)
            } else {
                partition
                    .rows()
                    .find(|stored| stored.clustering == row.clustering)
            };
            let Some(data) = found.and_then(|row| row.column(operation.column)) else {
                continue;
            };
            let live = data.cells().iter().filter(|cell| cell.is_live(now));
            return live.cloned().collect();
        }
        Vec::new()
    }
}

/// Which partition of which table a change is for.
pub(super) struct Place<'a> {
    pub(super) table: &'a TableMetadata,
    pub(super) key: &'a DecoratedKey,
}

fn is_read_first(operation: &Operation) -> bool {
    matches!(
        operation.change,
        Change::SetIndex(..) | Change::DeleteIndex(_) | Change::RemoveValues(_)
    )
}

/// The reads that a modification needs before it can be bound; mostly none.
pub(crate) fn required_reads(
    modification: &PreparedModification,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<ReadCommand>, CqlError> {
    let Body::Columns {
        restrictions,
        operations,
    } = &modification.body
    else {
        return Ok(Vec::new());
    };
    let mut queried: Vec<_> = operations
        .iter()
        .filter(|operation| is_read_first(operation))
        .map(|operation| operation.column)
        .collect();
    if queried.is_empty() {
        return Ok(Vec::new());
    }
    queried.sort_unstable();
    queried.dedup();
    let table = &modification.table;
    let only_static = !table.clustering().is_empty() && restrictions.clustering.is_empty();
    let filter = if only_static {
        ClusteringFilter::all()
    } else {
        restrictions.row_filter_of_clustering(evaluation, false)?
    };
    let commands = restrictions
        .keys(evaluation)?
        .into_iter()
        .map(|key| ReadCommand {
            table: Arc::clone(table),
            now_in_seconds: evaluation.context.now_in_seconds,
            columns: ColumnFilter::All {
                queried: queried.clone(),
            },
            row_filter: RowFilter::default(),
            limits: DataLimits {
                rows: u32::MAX,
                per_partition: u32::MAX,
                distinct: only_static,
                first_partition_returned: 0,
            },
            kind: ReadKind::Partition {
                key,
                filter: filter.clone(),
            },
        });
    Ok(commands.collect())
}

/// The cells that a change of a list writes: the path of each, and its value or `None` to delete it.
pub(super) fn changed(
    place: &Place<'_>,
    operation: &Operation,
    row: &Row,
    evaluation: &Evaluation<'_>,
) -> Result<Vec<(Bytes, Option<Bytes>)>, CqlError> {
    let existing = evaluation.context.existing.as_ref().ok_or_else(|| {
        CqlError::unsupported("a change of a list that needs a read before the write, here,")
    })?;
    let cells = existing.cells(place, operation, row, evaluation.context.now_in_seconds);
    let path = |cell: &Cell| cell.path.clone().unwrap_or_default();
    match &operation.change {
        Change::SetIndex(index, value) => {
            let value = value.value(evaluation)?;
            let at = index_of(index, evaluation)?
                .ok_or_else(|| invalid!("Invalid unset value for list index"))?;
            let cell = cell_at(&cells, at, "set an element on")?;
            Ok(match value {
                BoundValue::Unset => Vec::new(),
                BoundValue::Null => vec![(path(cell), None)],
                BoundValue::Value(bytes) => vec![(path(cell), Some(bytes))],
            })
        }
        Change::DeleteIndex(index) => {
            let Some(at) = index_of(index, evaluation)? else {
                return Ok(Vec::new());
            };
            let cell = cell_at(&cells, at, "delete an element from")?;
            Ok(vec![(path(cell), None)])
        }
        Change::RemoveValues(values) => {
            let BoundValue::Value(bytes) = values.value(evaluation)? else {
                return Ok(Vec::new());
            };
            let unwanted = elements::read_list(&bytes)?;
            let doomed = cells.iter().filter(|cell| unwanted.contains(&cell.value));
            Ok(doomed.map(|cell| (path(cell), None)).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// `None` when the index is unset.
fn index_of(index: &Expr, evaluation: &Evaluation<'_>) -> Result<Option<i32>, CqlError> {
    match index.value(evaluation)? {
        BoundValue::Unset => Ok(None),
        BoundValue::Null => Err(invalid!("Invalid null value for list index")),
        BoundValue::Value(bytes) => {
            let array = bytes[..]
                .try_into()
                .map_err(|_| invalid!("Invalid value for list index: an int has 4 bytes"))?;
            Ok(Some(i32::from_be_bytes(array)))
        }
    }
}

fn cell_at<'c>(cells: &'c [Cell], index: i32, doing: &str) -> Result<&'c Cell, CqlError> {
    let size = cells.len();
    if size == 0 {
        return Err(invalid!("Attempted to {doing} a list which is null"));
    }
    usize::try_from(index)
        .ok()
        .and_then(|at| cells.get(at))
        .ok_or_else(|| invalid!("List index {index} out of bound, list has size {size}"))
}
