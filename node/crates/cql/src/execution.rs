//! A bound SELECT, and the state machine that reads for it: commands out, partitions in, rows at
//! the end.
//!
//! Invariants:
//! E1: rows come out in the order of the commands and of the partitions in their answers.
//! E2: never more rows than LIMIT, PER PARTITION LIMIT and the page allow, whatever answers hold.

use crate::binding::{BindContext, BoundValue, Evaluation};
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use crate::paging::PagingState;
use crate::plan::ResultRows;
use crate::result::{ResultBuilder, Visit};
use crate::select::{PreparedSelect, queried};
use helenus_rows::command::ResumeAfter;
use helenus_rows::{
    Clustering, ClusteringBound, ClusteringFilter, ColumnFilter, DataLimits, DataRange, Partition,
    PartitionPosition, PrefixKind, ReadCommand, ReadKind, RowFilter,
};
use helenus_schema::TableMetadata;
use helenus_types::{CqlType, DecoratedKey};
use std::sync::Arc;

/// Rows that one command of an aggregation reads at most.
const AGGREGATION_PAGE: u32 = 10_000;

/// No limit, as Cassandra counts.
const NO_LIMIT: u32 = 0x7fff_ffff;

/// What to read.
#[derive(Debug, Clone)]
enum Target {
    /// These partitions.
    Keys(Vec<DecoratedKey>),
    /// A range of the ring.
    Range(PartitionPosition, PartitionPosition),
}

/// A bound SELECT.
#[derive(Debug, Clone)]
pub struct SelectPlan {
    select: Arc<PreparedSelect>,
    values: Vec<BoundValue>,
    context: BindContext,
    target: Target,
    filter: ClusteringFilter,
    row_filter: RowFilter,
    limit: u32,
    per_partition: u32,
    page_size: Option<u32>,
    resume: Option<PagingState>,
}

fn limit_value(expr: Option<&Expr>, evaluation: &Evaluation<'_>) -> Result<u32, CqlError> {
    let Some(expr) = expr else {
        return Ok(NO_LIMIT);
    };
    match expr.value(evaluation)? {
        BoundValue::Unset => Ok(NO_LIMIT),
        BoundValue::Null => Err(invalid!("Invalid null value of limit")),
        BoundValue::Value(bytes) => {
            CqlType::Int.validate(&bytes)?;
            let array = bytes[..]
                .try_into()
                .map_err(|_| invalid!("Invalid limit value"))?;
            u32::try_from(i32::from_be_bytes(array))
                .ok()
                .filter(|limit| *limit > 0)
                .ok_or_else(|| invalid!("LIMIT must be strictly positive"))
        }
    }
}

impl SelectPlan {
    /// Binds a SELECT.
    pub(crate) fn bind(
        select: &Arc<PreparedSelect>,
        values: Vec<BoundValue>,
        context: &BindContext,
    ) -> Result<Self, CqlError> {
        let restrictions = &select.restrictions;
        let evaluation = Evaluation::new(context, &values);
        let limit = limit_value(select.limit.as_ref(), &evaluation)?;
        let per_partition = limit_value(select.per_partition_limit.as_ref(), &evaluation)?;
        let filter = if select.distinct {
            ClusteringFilter::all()
        } else {
            restrictions.row_filter_of_clustering(&evaluation, select.reversed)?
        };
        let row_filter = restrictions.row_filter(&evaluation)?;
        let target = if restrictions.has_partition_key() {
            let mut keys = restrictions.keys(&evaluation)?;
            if let Some((start, end)) = restrictions
                .token_range(&evaluation)?
                .filter(|_| restrictions.has_token())
            {
                let range = DataRange {
                    start,
                    end,
                    filter: ClusteringFilter::all(),
                    resume_after: None,
                };
                keys.retain(|key| range.contains(key));
            }
            Target::Keys(keys)
        } else {
            match restrictions.token_range(&evaluation)? {
                Some((start, end)) => Target::Range(start, end),
                None => Target::Keys(Vec::new()),
            }
        };
        let page_size = context
            .page_size
            .filter(|size| *size > 0 && !select.is_aggregate());
        if !select.sort.is_empty() && page_size.is_some_and(|size| limit > size) {
            return Err(invalid!(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query"
            ));
        }
        let columns = select.table.clustering().len();
        let resume = context
            .paging_state
            .as_ref()
            .map(|state| PagingState::decode(state, columns))
            .transpose()?;
        if let Some(state) = &resume {
            validate_resume(state, &select.table, &target)?;
        }
        Ok(Self {
            select: Arc::clone(select),
            target,
            filter,
            row_filter,
            limit,
            per_partition,
            page_size,
            resume,
            context: context.clone(),
            values,
        })
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.select.table
    }

    /// Names and types of the result's columns.
    pub fn columns(&self) -> &Arc<[crate::binding::ColumnSpec]> {
        &self.select.result
    }

    /// The partitions, when the query names them; `None` for a range of the ring.
    pub fn keys(&self) -> Option<&[DecoratedKey]> {
        match &self.target {
            Target::Keys(keys) => Some(keys),
            Target::Range(..) => None,
        }
    }

    /// Starts reading.
    pub fn start(self) -> SelectExecution {
        SelectExecution::new(self)
    }
}

fn validate_resume(
    state: &PagingState,
    table: &TableMetadata,
    target: &Target,
) -> Result<(), CqlError> {
    let broken = || CqlError::Protocol("Invalid value for the paging state".into());
    if let Some(row) = &state.row {
        for (value, column) in row.0.iter().zip(table.clustering()) {
            if let Some(value) = value {
                column.cql_type.validate(value).map_err(|_| broken())?;
            }
        }
    }
    let needs_key = match target {
        Target::Keys(keys) => keys.len() > 1,
        Target::Range(..) => true,
    };
    if needs_key && state.partition_key.is_empty() {
        Err(broken())
    } else {
        Ok(())
    }
}

/// Reads for a SELECT: ask for commands, run them, feed the answers, until no command comes.
#[derive(Debug)]
pub struct SelectExecution {
    plan: SelectPlan,
    builder: ResultBuilder,
    queried: Vec<helenus_schema::ColumnId>,
    next_key: usize,
    /// Rows that LIMIT still allows.
    remaining: u32,
    /// Rows that the page still allows.
    page_left: u32,
    /// The last partition that rows came from, the last row and what PER PARTITION LIMIT still allows there.
    position: Option<(DecoratedKey, Option<Clustering>, u32)>,
    /// The row in the paging state that this page goes on from.
    last_row: Option<Clustering>,
    /// Rows asked for by the commands that are running, and their keys.
    asked: u32,
    running: Vec<Option<DecoratedKey>>,
    done: bool,
    paging_state: Option<PagingState>,
}

impl SelectExecution {
    fn new(plan: SelectPlan) -> Self {
        let select = Arc::clone(&plan.select);
        let mut execution = Self {
            builder: ResultBuilder::new(&select, plan.limit),
            queried: queried(&select),
            next_key: 0,
            remaining: if select.is_aggregate() {
                NO_LIMIT
            } else {
                plan.limit
            },
            page_left: plan.page_size.unwrap_or(NO_LIMIT),
            position: None,
            last_row: None,
            asked: 0,
            running: Vec::new(),
            done: false,
            paging_state: None,
            plan,
        };
        if let Some(state) = execution.plan.resume.clone() {
            execution.resume(state);
        }
        execution
    }

    fn resume(&mut self, state: PagingState) {
        if !self.plan.select.is_aggregate() {
            self.remaining = state.remaining.min(self.remaining);
        }
        let key = match &self.plan.target {
            Target::Keys(keys) if state.partition_key.is_empty() => match keys.first() {
                Some(key) => key.clone(),
                None => return,
            },
            _ => DecoratedKey::new(state.partition_key.clone()),
        };
        if let Target::Keys(keys) = &self.plan.target {
            let at = keys.iter().position(|wanted| *wanted == key);
            self.next_key = at.unwrap_or(keys.len());
            if state.remaining_in_partition == 0 && keys.get(self.next_key) == Some(&key) {
                self.next_key += 1;
            }
        }
        self.last_row.clone_from(&state.row);
        self.position = Some((key, state.row, state.remaining_in_partition));
    }

    /// The commands to run next, at most `parallel` of them; none when everything is read.
    pub fn next_commands(&mut self, parallel: usize) -> Vec<ReadCommand> {
        self.asked = self.remaining.min(self.page_left);
        if self.plan.select.is_aggregate() {
            self.asked = self.asked.min(AGGREGATION_PAGE);
        }
        if self.done || self.asked == 0 {
            return Vec::new();
        }
        self.running.clear();
        match self.plan.target.clone() {
            Target::Keys(keys) => {
                let until = keys
                    .len()
                    .min(self.next_key.saturating_add(parallel.max(1)));
                let mut commands = Vec::new();
                for key in keys.get(self.next_key..until).unwrap_or_default() {
                    commands.push(self.partition_command(key));
                    self.running.push(Some(key.clone()));
                }
                commands
            }
            Target::Range(start, end) => {
                self.running.push(None);
                vec![self.range_command(start, end)]
            }
        }
    }

    fn command(&self, first_partition_returned: u32, kind: ReadKind) -> ReadCommand {
        let unlimited = |limit: u32| if limit >= NO_LIMIT { u32::MAX } else { limit };
        // groups are counted here, not by replicas
        let per_partition = if self.plan.select.is_aggregate() {
            NO_LIMIT
        } else {
            self.plan.per_partition
        };
        ReadCommand {
            table: Arc::clone(&self.plan.select.table),
            now_in_seconds: self.plan.context.now_in_seconds,
            columns: ColumnFilter::All {
                queried: self.queried.clone(),
            },
            row_filter: self.plan.row_filter.clone(),
            limits: DataLimits {
                rows: unlimited(self.asked),
                per_partition: unlimited(per_partition),
                distinct: self.plan.select.distinct,
                first_partition_returned,
            },
            kind,
        }
    }

    fn partition_command(&self, key: &DecoratedKey) -> ReadCommand {
        let mut filter = self.plan.filter.clone();
        let mut returned = 0;
        if let Some((last, row, remaining)) = &self.position
            && last == key
        {
            returned = self.plan.per_partition.saturating_sub(*remaining);
            if let Some(row) = row {
                filter = after(&filter, row, &self.plan.select.table);
            }
        }
        let returned = if self.plan.per_partition >= NO_LIMIT {
            0
        } else {
            returned
        };
        self.command(
            returned,
            ReadKind::Partition {
                key: key.clone(),
                filter,
            },
        )
    }

    fn range_command(&self, start: PartitionPosition, end: PartitionPosition) -> ReadCommand {
        let mut range = DataRange {
            start,
            end,
            filter: self.plan.filter.clone(),
            resume_after: None,
        };
        let mut returned = 0;
        if let Some((key, row, remaining)) = &self.position {
            let within = *remaining > 0 && row.is_some();
            range.start = PartitionPosition::Key {
                key: key.clone(),
                inclusive: within,
            };
            if within {
                range.resume_after = row.clone().map(|clustering| ResumeAfter {
                    clustering,
                    inclusive: false,
                });
                returned = self.plan.per_partition.saturating_sub(*remaining);
            }
        }
        let returned = if self.plan.per_partition >= NO_LIMIT {
            0
        } else {
            returned
        };
        self.command(returned, ReadKind::Range(range))
    }

    /// Takes the answers of the commands that [`Self::next_commands`] gave, in their order: the
    /// merged partitions of each.
    pub fn feed(&mut self, answers: &[Vec<Partition>]) -> Result<(), CqlError> {
        let running = std::mem::take(&mut self.running);
        for (key, answer) in running.iter().zip(answers) {
            if self.done {
                break;
            }
            let counted = self.take(answer)?;
            let full = counted >= self.asked;
            if self.page_left == 0 || self.remaining == 0 {
                self.stop();
            } else if key.is_some() {
                if !full {
                    self.next_key += 1;
                }
            } else if !full {
                self.done = true;
            }
            if full && self.is_partition_done() && key.is_some() {
                self.next_key += 1;
            }
            if full {
                // the other answers were asked for with other limits in mind: ask again
                break;
            }
        }
        if let Target::Keys(keys) = &self.plan.target
            && self.next_key >= keys.len()
        {
            self.done = true;
            if keys.len() == 1 {
                self.paging_state = None;
            }
        }
        Ok(())
    }

    /// Whether nothing is left in the partition of the last row.
    fn is_partition_done(&self) -> bool {
        self.position
            .as_ref()
            .is_some_and(|position| position.2 == 0)
    }

    /// The page or LIMIT is full.
    fn stop(&mut self) {
        self.done = true;
        if self.remaining == 0 || self.plan.page_size.is_none() {
            return;
        }
        let Some((key, row, remaining_in_partition)) = &self.position else {
            return;
        };
        let single = matches!(&self.plan.target, Target::Keys(keys) if keys.len() == 1);
        if single && *remaining_in_partition == 0 {
            return;
        }
        let row = match &self.plan.target {
            Target::Keys(_) => row.clone(),
            // where a partition has static values alone, Cassandra keeps the row of the page before
            Target::Range(..) => row.clone().or_else(|| self.last_row.clone()),
        };
        self.paging_state = Some(PagingState {
            partition_key: if single {
                bytes::Bytes::new()
            } else {
                key.key.clone()
            },
            row,
            remaining: self.remaining,
            remaining_in_partition: *remaining_in_partition,
        });
    }

    /// Takes the partitions of one answer; says how many rows it counted.
    fn take(&mut self, partitions: &[Partition]) -> Result<u32, CqlError> {
        let evaluation = Evaluation::new(&self.plan.context, &self.plan.values);
        let aggregate = self.plan.select.is_aggregate();
        // answers before this one took their share of what was asked for
        let asked = self.asked.min(self.remaining).min(self.page_left);
        let mut counted = 0;
        for partition in partitions {
            let resumed = self
                .position
                .as_ref()
                .filter(|position| position.0 == partition.key);
            let mut left = match resumed {
                Some(position) => position.2,
                None if self.plan.select.distinct => 1,
                None if aggregate => NO_LIMIT,
                None => self.plan.per_partition,
            };
            let visit = Visit {
                partition,
                resumed: resumed.is_some(),
                now: self.plan.context.now_in_seconds,
                filter: &self.plan.row_filter,
            };
            for row in visit.rows(&self.plan.select) {
                if left == 0 || counted >= asked {
                    break;
                }
                counted += 1;
                left -= 1;
                let clustering = row.map(|row| row.clustering.clone());
                if clustering
                    .as_ref()
                    .is_none_or(|clustering| clustering.0.is_empty())
                {
                    left = 0;
                }
                self.position = Some((partition.key.clone(), clustering, left));
                self.builder
                    .row(&visit, row, &evaluation, self.plan.per_partition)?;
            }
            if counted >= asked {
                break;
            }
        }
        self.remaining = self
            .remaining
            .saturating_sub(if aggregate { 0 } else { counted });
        if self.plan.page_size.is_some() {
            self.page_left = self.page_left.saturating_sub(counted);
        }
        Ok(counted)
    }

    /// The result.
    pub fn finish(self) -> Result<ResultRows, CqlError> {
        let evaluation = Evaluation::new(&self.plan.context, &self.plan.values);
        let rows = self.builder.finish(&evaluation)?;
        Ok(ResultRows {
            columns: Arc::clone(&self.plan.select.result),
            rows,
            paging_state: self.paging_state.map(|state| state.encode()),
            warnings: self.plan.select.warnings.clone(),
        })
    }
}

/// What is left of a filter behind a row, in the filter's own order.
fn after(filter: &ClusteringFilter, row: &Clustering, table: &TableMetadata) -> ClusteringFilter {
    match filter {
        ClusteringFilter::Names {
            clusterings,
            reversed,
        } => {
            let left = clusterings.iter().filter(|wanted| {
                let order = wanted.compare(row, table);
                if *reversed {
                    order.is_lt()
                } else {
                    order.is_gt()
                }
            });
            ClusteringFilter::Names {
                clusterings: left.cloned().collect(),
                reversed: *reversed,
            }
        }
        ClusteringFilter::Slices { slices, reversed } => {
            let kind = if *reversed {
                PrefixKind::ExclusiveEnd
            } else {
                PrefixKind::ExclusiveStart
            };
            let bound = ClusteringBound {
                kind,
                values: row.0.clone(),
            };
            let mut left = Vec::with_capacity(slices.len());
            for slice in slices {
                let mut slice = slice.clone();
                if *reversed {
                    if bound.compare(&slice.end, table).is_lt() {
                        slice.end = bound.clone();
                    }
                } else if bound.compare(&slice.start, table).is_gt() {
                    slice.start = bound.clone();
                }
                if slice.start.compare(&slice.end, table).is_lt() {
                    left.push(slice);
                }
            }
            ClusteringFilter::Slices {
                slices: left,
                reversed: *reversed,
            }
        }
    }
}
