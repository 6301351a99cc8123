//! Judging rows by the conditions of `ALLOW FILTERING`.

use crate::cell::{Cell, ColumnData};
use crate::command::{Operator, RowFilter, RowFilterExpression};
use crate::row::Row;
use bytes::Bytes;
use helenus_schema::{Column, ColumnKind, TableMetadata};
use helenus_types::{CqlType, DecoratedKey, NowInSeconds, elements};
use std::cmp::Ordering;

impl RowFilter {
    /// What this filter uses that [`RowFilter::matches`] cannot judge.
    pub fn unsupported(&self) -> Option<&'static str> {
        self.expressions
            .iter()
            .find_map(|expression| match expression.operator {
                Operator::Like
                | Operator::LikePrefix
                | Operator::LikeSuffix
                | Operator::LikeContains
                | Operator::LikeMatches => Some("LIKE"),
                Operator::Ann => Some("ANN OF"),
                _ => None,
            })
    }

    /// Whether a condition is about rows: on clustering or regular columns.
    pub fn is_about_rows(&self, table: &TableMetadata) -> bool {
        self.expressions.iter().any(|expression| {
            table.column_by_id(expression.column).is_some_and(|column| {
                matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular)
            })
        })
    }

    /// Whether a partition fulfils the conditions on its key and static columns at `now`; if not, no
    /// row of it does, nor does it give a row of static values alone.
    pub fn matches_partition(
        &self,
        table: &TableMetadata,
        key: &DecoratedKey,
        static_row: &Row,
        now: NowInSeconds,
    ) -> bool {
        self.expressions.iter().all(|expression| {
            let Some(column) = table.column_by_id(expression.column) else {
                return false;
            };
            match column.kind {
                ColumnKind::PartitionKey => {
                    let part = partition_key_part(table, &key.key, column.position);
                    part.is_some_and(|value| expression.holds_for(&column.cql_type, &value))
                }
                ColumnKind::Static => {
                    expression.holds_in(column, static_row.column(column.id), now)
                }
                ColumnKind::Clustering | ColumnKind::Regular => true,
            }
        })
    }

    /// Whether a live row fulfils every condition at `now`. Conditions on static columns are judged
    /// by `static_row`, those on the partition key by `key`.
    pub fn matches(
        &self,
        table: &TableMetadata,
        key: &DecoratedKey,
        static_row: &Row,
        row: &Row,
        now: NowInSeconds,
    ) -> bool {
        self.matches_partition(table, key, static_row, now)
            && self.expressions.iter().all(|expression| {
                let Some(column) = table.column_by_id(expression.column) else {
                    return false;
                };
                match column.kind {
                    ColumnKind::PartitionKey | ColumnKind::Static => true,
                    ColumnKind::Clustering => {
                        let value = row.clustering.0.get(column.position).cloned().flatten();
                        value.is_some_and(|value| expression.holds_for(&column.cql_type, &value))
                    }
                    ColumnKind::Regular => expression.holds_in(column, row.column(column.id), now),
                }
            })
    }
}

/// One value of a serialized partition key.
fn partition_key_part(table: &TableMetadata, key: &Bytes, position: usize) -> Option<Bytes> {
    if table.partition_key().len() == 1 {
        return Some(key.clone());
    }
    let mut reader = helenus_types::Reader::new(key.clone());
    for _ in 0..position {
        reader.short_bytes().ok()?;
        reader.u8().ok()?;
    }
    reader.short_bytes().ok()
}

impl RowFilterExpression {
    fn holds_in(&self, column: &Column, data: Option<&ColumnData>, now: NowInSeconds) -> bool {
        match data {
            None => false,
            Some(ColumnData::Simple(cell)) => {
                cell.is_live(now) && self.holds_for(&column.cql_type, &cell.value)
            }
            Some(ColumnData::Complex(complex)) => {
                let live: Vec<&Cell> = complex
                    .cells
                    .iter()
                    .filter(|cell| cell.is_live(now))
                    .collect();
                self.holds_for_cells(&column.cql_type, &live)
            }
        }
    }

    /// Judges a whole value: of a single-cell column or a part of the primary key.
    fn holds_for(&self, cql_type: &CqlType, value: &Bytes) -> bool {
        if let Some(map_key) = &self.map_key {
            let (CqlType::Map { key, value: of, .. }, Ok(entries)) =
                (cql_type, elements::read_map(value))
            else {
                return false;
            };
            let found = entries
                .into_iter()
                .find(|(present, _)| key.compare(present, map_key).is_eq());
            return found.is_some_and(|(_, value)| self.compares(of.compare(&value, &self.value)));
        }
        match (self.operator, cql_type) {
            (Operator::IsNotNull, _) => true,
            (Operator::In, _) => elements::read_list(&self.value).is_ok_and(|list| {
                list.iter()
                    .any(|wanted| cql_type.compare(value, wanted).is_eq())
            }),
            (Operator::Contains, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                elements::read_list(value).is_ok_and(|list| {
                    list.iter()
                        .any(|one| element.compare(one, &self.value).is_eq())
                })
            }
            (Operator::Contains, CqlType::Map { value: of, .. }) => elements::read_map(value)
                .is_ok_and(|entries| {
                    entries
                        .iter()
                        .any(|(_, one)| of.compare(one, &self.value).is_eq())
                }),
            (Operator::ContainsKey, CqlType::Map { key, .. }) => elements::read_map(value)
                .is_ok_and(|entries| {
                    entries
                        .iter()
                        .any(|(one, _)| key.compare(one, &self.value).is_eq())
                }),
            (Operator::Contains | Operator::ContainsKey, _) => false,
            _ => self.compares(cql_type.compare(value, &self.value)),
        }
    }

    /// Judges the live cells of a multi-cell column.
    fn holds_for_cells(&self, cql_type: &CqlType, cells: &[&Cell]) -> bool {
        let path_is = |cell: &Cell, of: &CqlType, wanted: &[u8]| {
            cell.path
                .as_ref()
                .is_some_and(|path| of.compare(path, wanted).is_eq())
        };
        if cells.is_empty() {
            return false;
        }
        if let Some(map_key) = &self.map_key {
            let CqlType::Map { key, value, .. } = cql_type else {
                return false;
            };
            let found = cells.iter().find(|cell| path_is(cell, key, map_key));
            return found
                .is_some_and(|cell| self.compares(value.compare(&cell.value, &self.value)));
        }
        match (self.operator, cql_type) {
            (Operator::IsNotNull, _) => true,
            (Operator::Contains, CqlType::Set { element, .. }) => {
                cells.iter().any(|cell| path_is(cell, element, &self.value))
            }
            (
                Operator::Contains,
                CqlType::List { element: of, .. } | CqlType::Map { value: of, .. },
            ) => cells
                .iter()
                .any(|cell| of.compare(&cell.value, &self.value).is_eq()),
            (Operator::ContainsKey, CqlType::Map { key, .. }) => {
                cells.iter().any(|cell| path_is(cell, key, &self.value))
            }
            (Operator::Contains | Operator::ContainsKey, _) => false,
            _ => whole_value(cql_type, cells).is_some_and(|value| {
                let operator = Self {
                    map_key: None,
                    ..self.clone()
                };
                operator.holds_for(cql_type, &value)
            }),
        }
    }

    fn compares(&self, order: Ordering) -> bool {
        match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::Less => order.is_lt(),
            Operator::LessEqual => order.is_le(),
            _ => false,
        }
    }
}

/// The serialized value of a multi-cell column.
fn whole_value(cql_type: &CqlType, cells: &[&Cell]) -> Option<Bytes> {
    match cql_type {
        CqlType::List { .. } => {
            elements::write_list(&cells.iter().map(|cell| &cell.value).collect::<Vec<_>>()).ok()
        }
        CqlType::Set { .. } => elements::write_list(
            &cells
                .iter()
                .filter_map(|cell| cell.path.as_ref())
                .collect::<Vec<_>>(),
        )
        .ok(),
        CqlType::Map { .. } => {
            let entries: Vec<_> = cells
                .iter()
                .filter_map(|cell| Some((cell.path.as_ref()?, &cell.value)))
                .collect();
            elements::write_map(&entries).ok()
        }
        CqlType::Udt(user_type) => {
            let mut fields: Vec<Option<&Bytes>> = vec![None; user_type.fields.len()];
            for cell in cells {
                let at = u16::from_be_bytes(cell.path.as_ref()?.first_chunk().copied()?);
                *fields.get_mut(usize::from(at))? = Some(&cell.value);
            }
            elements::write_fields(&fields).ok()
        }
        _ => None,
    }
}
