//! From terms to typed expressions: names and types are resolved, constants turned into bytes,
//! bind markers given their types.

use crate::ast::{LiteralKind, Marker, RawType, Term};
use crate::binding::ColumnSpec;
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use crate::functions;
use crate::raw_type::resolve_type;
use crate::text;
use bytes::Bytes;
use helenus_schema::{ColumnId, Schema, TableMetadata};
use helenus_types::CqlType;
use std::sync::Arc;

/// What a value is for: a column, an element of one, an argument.
#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    pub(crate) name: String,
    pub(crate) cql_type: CqlType,
}

impl Receiver {
    pub(crate) fn new(name: impl Into<String>, cql_type: CqlType) -> Self {
        Self {
            name: name.into(),
            cql_type,
        }
    }
}

/// An aggregate call found in a SELECT clause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AggregateCall {
    pub(crate) function: functions::Aggregate,
    pub(crate) argument: Option<Expr>,
    pub(crate) argument_type: CqlType,
}

/// The state of the analysis of one statement.
pub(crate) struct Analysis<'a> {
    pub(crate) schema: &'a Schema,
    /// Keyspace and table that bind variables are said to belong to.
    pub(crate) table: Option<Arc<TableMetadata>>,
    pub(crate) markers: Vec<Option<ColumnSpec>>,
    marker_names: Vec<Option<String>>,
    /// Columns that a SELECT fetches, in order of first use.
    pub(crate) fetched: Vec<ColumnId>,
    pub(crate) aggregates: Vec<AggregateCall>,
    /// Whether columns may be named.
    pub(crate) selecting: bool,
    in_aggregate: bool,
}

impl<'a> Analysis<'a> {
    pub(crate) fn new(schema: &'a Schema, marker_names: &[Option<String>]) -> Self {
        Self {
            schema,
            table: None,
            markers: vec![None; marker_names.len()],
            marker_names: marker_names.to_vec(),
            fetched: Vec::new(),
            aggregates: Vec::new(),
            selecting: false,
            in_aggregate: false,
        }
    }

    /// Gives a marker its type.
    pub(crate) fn marker(&mut self, marker: &Marker, receiver: &Receiver) -> Expr {
        let (keyspace, table) = self.table.as_ref().map_or_else(Default::default, |table| {
            (table.keyspace.clone(), table.name.clone())
        });
        let name = self
            .marker_names
            .get(marker.index)
            .cloned()
            .flatten()
            .unwrap_or_else(|| receiver.name.clone());
        if let Some(slot) = self.markers.get_mut(marker.index) {
            *slot = Some(ColumnSpec {
                keyspace,
                table,
                name,
                cql_type: receiver.cql_type.clone(),
            });
        }
        Expr::Marker {
            index: marker.index,
            cql_type: receiver.cql_type.clone(),
        }
    }

    /// The index of a column among those fetched.
    pub(crate) fn fetch(&mut self, id: ColumnId) -> usize {
        if let Some(at) = self.fetched.iter().position(|fetched| *fetched == id) {
            return at;
        }
        self.fetched.push(id);
        self.fetched.len() - 1
    }

    /// The typed form of a term whose type the receiver says.
    pub(crate) fn term(&mut self, term: &Term, receiver: &Receiver) -> Result<Expr, CqlError> {
        match term {
            Term::Null => Ok(Expr::Constant(None)),
            Term::Marker(marker) => Ok(self.marker(marker, receiver)),
            Term::Literal(kind, text) => {
                constant(*kind, text, receiver).map(|bytes| Expr::Constant(Some(bytes)))
            }
            Term::List(items) => self.list_literal(items, receiver),
            Term::Set(items) => self.set_literal(items, receiver),
            Term::Map(entries) => self.map_literal(entries, receiver),
            Term::Tuple(items) => self.tuple_literal(items, receiver),
            Term::UserType(fields) => self.user_type_literal(fields, receiver),
            Term::Negate(value) => {
                if let Term::Literal(
                    kind @ (LiteralKind::Integer | LiteralKind::Float | LiteralKind::Duration),
                    text,
                ) = &**value
                {
                    return constant(*kind, &format!("-{text}"), receiver)
                        .map(|bytes| Expr::Constant(Some(bytes)));
                }
                self.computed(term, receiver)
            }
            _ => self.computed(term, receiver),
        }
    }

    /// A term with a type of its own, which must suit the receiver.
    fn computed(&mut self, term: &Term, receiver: &Receiver) -> Result<Expr, CqlError> {
        let (expr, cql_type) = self.infer(term, Some(&receiver.cql_type))?;
        if !assignable_type(&cql_type, &receiver.cql_type) {
            let what = match term {
                Term::Function(..) => format!("result of function {}", Self::function_text(term)),
                other => text::term(other),
            };
            return Err(invalid!(
                "Type error: cannot assign {what} (type {cql_type}) to {} (type {})",
                receiver.name,
                receiver.cql_type
            ));
        }
        Ok(expr)
    }

    fn function_text(term: &Term) -> String {
        match term {
            Term::Function(name, _) => format!("system.{}", name.name),
            other => text::term(other),
        }
    }

    fn items(
        &mut self,
        items: &[Term],
        name: &str,
        element: &CqlType,
    ) -> Result<Vec<Expr>, CqlError> {
        let receiver = Receiver::new(name, element.clone());
        items
            .iter()
            .map(|item| {
                if *item == Term::Null {
                    return Err(invalid!("null is not supported inside collections"));
                }
                self.term(item, &receiver)
            })
            .collect()
    }

    fn check_items(
        &self,
        what: &str,
        word: &str,
        items: &[&Term],
        element: &CqlType,
        receiver: &Receiver,
    ) -> Result<(), CqlError> {
        for item in items {
            if **item == Term::Null {
                return Err(invalid!("null is not supported inside collections"));
            }
            if !self.assignable(item, element) {
                return Err(invalid!(
                    "Invalid {what} literal for {}: {word} {} is not of type {element}",
                    receiver.name,
                    text::term(item)
                ));
            }
        }
        Ok(())
    }

    fn list_literal(&mut self, items: &[Term], receiver: &Receiver) -> Result<Expr, CqlError> {
        let name = format!("value({})", receiver.name);
        match &receiver.cql_type {
            CqlType::List { element, .. } => {
                self.check_items(
                    "list",
                    "value",
                    &items.iter().collect::<Vec<_>>(),
                    element,
                    receiver,
                )?;
                Ok(Expr::List(self.items(items, &name, element)?))
            }
            CqlType::Vector { element, dimension } => {
                if u32::try_from(items.len()) != Ok(*dimension) {
                    return Err(invalid!(
                        "Invalid vector literal for {} of type {}; expected {dimension} elements, but given {}",
                        receiver.name,
                        receiver.cql_type,
                        items.len()
                    ));
                }
                self.check_items(
                    "vector",
                    "value",
                    &items.iter().collect::<Vec<_>>(),
                    element,
                    receiver,
                )?;
                Ok(Expr::Vector {
                    element: (**element).clone(),
                    items: self.items(items, &name, element)?,
                })
            }
            other => Err(invalid!(
                "Invalid list literal for {} of type {other}",
                receiver.name
            )),
        }
    }

    fn set_literal(&mut self, items: &[Term], receiver: &Receiver) -> Result<Expr, CqlError> {
        let CqlType::Set { element, .. } = &receiver.cql_type else {
            return Err(invalid!(
                "Invalid set literal for {} of type {}",
                receiver.name,
                receiver.cql_type
            ));
        };
        self.check_items(
            "set",
            "value",
            &items.iter().collect::<Vec<_>>(),
            element,
            receiver,
        )?;
        let name = format!("value({})", receiver.name);
        Ok(Expr::Set {
            element: (**element).clone(),
            items: self.items(items, &name, element)?,
        })
    }

    fn map_literal(
        &mut self,
        entries: &[(Term, Term)],
        receiver: &Receiver,
    ) -> Result<Expr, CqlError> {
        match &receiver.cql_type {
            CqlType::Set { element, .. } if entries.is_empty() => Ok(Expr::Set {
                element: (**element).clone(),
                items: Vec::new(),
            }),
            CqlType::Udt(user_type) if entries.is_empty() => {
                Ok(Expr::Fields(vec![
                    Expr::Constant(None);
                    user_type.fields.len()
                ]))
            }
            CqlType::Map { key, value, .. } => {
                for (k, v) in entries {
                    self.check_items("map", "key", &[k], key, receiver)?;
                    self.check_items("map", "value", &[v], value, receiver)?;
                }
                let key_receiver =
                    Receiver::new(format!("key({})", receiver.name), (**key).clone());
                let value_receiver =
                    Receiver::new(format!("value({})", receiver.name), (**value).clone());
                let mut typed = Vec::with_capacity(entries.len());
                for (k, v) in entries {
                    typed.push((self.term(k, &key_receiver)?, self.term(v, &value_receiver)?));
                }
                Ok(Expr::Map {
                    key: (**key).clone(),
                    entries: typed,
                })
            }
            other => Err(invalid!(
                "Invalid map literal for {} of type {other}",
                receiver.name
            )),
        }
    }

    fn tuple_literal(&mut self, items: &[Term], receiver: &Receiver) -> Result<Expr, CqlError> {
        let CqlType::Tuple(types) = &receiver.cql_type else {
            if let [only] = items {
                return self.term(only, receiver);
            }
            return Err(invalid!(
                "Invalid tuple type literal for {} of type {}",
                receiver.name,
                receiver.cql_type
            ));
        };
        if items.len() > types.len() {
            return Err(invalid!(
                "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
                receiver.name,
                receiver.cql_type,
                types.len(),
                items.len()
            ));
        }
        let mut fields = Vec::with_capacity(items.len());
        for (at, (item, cql_type)) in items.iter().zip(types.iter()).enumerate() {
            if !self.assignable(item, cql_type) {
                return Err(invalid!(
                    "Invalid tuple literal for {}: component {at} is not of type {cql_type}",
                    receiver.name
                ));
            }
            fields.push(self.term(
                item,
                &Receiver::new(format!("{}[{at}]", receiver.name), cql_type.clone()),
            )?);
        }
        Ok(Expr::Fields(fields))
    }

    fn user_type_literal(
        &mut self,
        given: &[(String, Term)],
        receiver: &Receiver,
    ) -> Result<Expr, CqlError> {
        let CqlType::Udt(user_type) = &receiver.cql_type else {
            return Err(invalid!(
                "Invalid user type literal for {} of type {}",
                receiver.name,
                receiver.cql_type
            ));
        };
        for (name, _) in given {
            if !user_type.fields.iter().any(|field| field.0 == *name) {
                return Err(invalid!(
                    "Unknown field '{name}' in value of user defined type {}",
                    user_type.name
                ));
            }
        }
        let mut fields = Vec::with_capacity(user_type.fields.len());
        for (name, cql_type) in &user_type.fields {
            let Some((_, value)) = given.iter().find(|field| field.0 == *name) else {
                fields.push(Expr::Constant(None));
                continue;
            };
            if !self.assignable(value, cql_type) {
                return Err(invalid!(
                    "Invalid user type literal for {}: field {name} is not of type {cql_type}",
                    receiver.name
                ));
            }
            fields.push(self.term(
                value,
                &Receiver::new(format!("{}.{name}", receiver.name), cql_type.clone()),
            )?);
        }
        Ok(Expr::Fields(fields))
    }

    /// Whether a term may be given where a value of this type is wanted.
    pub(crate) fn assignable(&self, term: &Term, target: &CqlType) -> bool {
        match (term, target) {
            (Term::Null | Term::Marker(_), _) => true,
            (Term::Literal(kind, _), _) => literal_suits(*kind, target),
            (Term::List(items), CqlType::List { element, .. }) => {
                items.iter().all(|item| self.assignable(item, element))
            }
            (Term::List(items), CqlType::Vector { element, dimension }) => {
                u32::try_from(items.len()) == Ok(*dimension)
                    && items.iter().all(|item| self.assignable(item, element))
            }
            (Term::Set(items), CqlType::Set { element, .. }) => {
                items.iter().all(|item| self.assignable(item, element))
            }
            (Term::Map(entries), CqlType::Set { .. } | CqlType::Udt(_)) => entries.is_empty(),
            (Term::Map(entries), CqlType::Map { key, value, .. }) => entries
                .iter()
                .all(|(k, v)| self.assignable(k, key) && self.assignable(v, value)),
            (Term::Tuple(items), CqlType::Tuple(types)) => {
                items.len() <= types.len()
                    && items
                        .iter()
                        .zip(types.iter())
                        .all(|(item, t)| self.assignable(item, t))
            }
            (Term::Tuple(items), other) => {
                matches!(&items[..], [only] if self.assignable(only, other))
            }
            (Term::UserType(fields), CqlType::Udt(user_type)) => {
                fields.iter().all(|(name, value)| {
                    user_type
                        .fields
                        .iter()
                        .any(|(field, t)| field == name && self.assignable(value, t))
                })
            }
            (Term::List(_) | Term::Set(_) | Term::Map(_) | Term::UserType(_), _) => false,
            (Term::Negate(value), _) => self.assignable(value, target),
            (other, _) => self
                .type_of(other, Some(target))
                .is_none_or(|found| assignable_type(&found, target)),
        }
    }

    /// The type of a term that has one of its own, without side effects.
    pub(crate) fn type_of(&self, term: &Term, wanted: Option<&CqlType>) -> Option<CqlType> {
        let mut probe = Analysis {
            schema: self.schema,
            table: self.table.clone(),
            markers: self.markers.clone(),
            marker_names: self.marker_names.clone(),
            fetched: Vec::new(),
            aggregates: Vec::new(),
            selecting: self.selecting,
            in_aggregate: false,
        };
        probe.infer(term, wanted).ok().map(|found| found.1)
    }

    /// A term with its own type; `wanted` helps where several would do.
    pub(crate) fn infer(
        &mut self,
        term: &Term,
        wanted: Option<&CqlType>,
    ) -> Result<(Expr, CqlType), CqlError> {
        match term {
            Term::Column(name) => self.column(name),
            Term::CountStar => {
                self.aggregate(functions::Aggregate::CountRows, None, CqlType::BigInt)
            }
            Term::Literal(kind, text) => {
                let cql_type = match wanted {
                    Some(wanted) if literal_suits(*kind, wanted) => wanted.clone(),
                    _ => preferred_type(*kind, text),
                };
                let bytes = constant(*kind, text, &Receiver::new(text.clone(), cql_type.clone()))?;
                Ok((Expr::Constant(Some(bytes)), cql_type))
            }
            Term::Hint(raw, value) => {
                let cql_type = self.resolve_type(raw)?;
                if !self.assignable(value, &cql_type) {
                    return Err(invalid!(
                        "Cannot cast value {} to type {cql_type}",
                        text::term(value)
                    ));
                }
                let receiver = Receiver::new(text::term(value), cql_type.clone());
                Ok((self.term(value, &receiver)?, cql_type))
            }
            Term::Cast(value, target) => {
                let (expr, from) = self.infer(value, None)?;
                let function = functions::cast(&from, target)?;
                Ok((Expr::Call(Arc::new(function), vec![expr]), target.clone()))
            }
            Term::Function(name, arguments) => functions::resolve(self, name, arguments, wanted),
            Term::Arithmetic(operator, left, right) => {
                functions::arithmetic(self, *operator, left, right, wanted)
            }
            Term::Negate(value) => {
                let (expr, cql_type) = self.infer(value, wanted)?;
                let function = functions::negate(&cql_type)?;
                Ok((Expr::Call(Arc::new(function), vec![expr]), cql_type))
            }
            Term::Metadata(fact, of) => self.cell_fact(*fact, of),
            Term::Field(value, field) => self.field(value, field),
            Term::Element(value, key) => self.element(value, key),
            Term::Range(value, from, to) => self.range(value, from.as_deref(), to.as_deref()),
            Term::Null
            | Term::Marker(_)
            | Term::List(_)
            | Term::Set(_)
            | Term::Map(_)
            | Term::Tuple(_)
            | Term::UserType(_) => {
                let Some(wanted) = wanted.cloned().or_else(|| self.guess(term)) else {
                    return Err(invalid!(
                        "Cannot infer type for term {} in selection clause (try using a cast to force a type)",
                        text::term(term)
                    ));
                };
                let receiver = Receiver::new(text::term(term), wanted.clone());
                Ok((self.term(term, &receiver)?, wanted))
            }
        }
    }

    /// The type of a literal collection whose elements have types of their own.
    fn guess(&self, term: &Term) -> Option<CqlType> {
        let of = |items: &[Term]| {
            items
                .iter()
                .find_map(|item| self.type_of(item, None).or_else(|| self.guess(item)))
        };
        Some(match term {
            Term::List(items) => CqlType::List {
                element: Arc::new(of(items)?),
                frozen: false,
            },
            Term::Set(items) => CqlType::Set {
                element: Arc::new(of(items)?),
                frozen: false,
            },
            Term::Map(entries) => {
                let (key, value) = entries.first()?;
                CqlType::Map {
                    key: Arc::new(of(std::slice::from_ref(key))?),
                    value: Arc::new(of(std::slice::from_ref(value))?),
                    frozen: false,
                }
            }
            Term::Tuple(items) => CqlType::Tuple(
                items
                    .iter()
                    .map(|item| of(std::slice::from_ref(item)))
                    .collect::<Option<Vec<_>>>()?
                    .into(),
            ),
            _ => return None,
        })
    }

    fn column(&mut self, name: &str) -> Result<(Expr, CqlType), CqlError> {
        let table = self
            .table
            .clone()
            .filter(|_| self.selecting)
            .ok_or_else(|| invalid!("Undefined column name {name}"))?;
        let column = column_of(&table, name)?;
        Ok((Expr::Column(self.fetch(column.id)), column.cql_type.clone()))
    }

    pub(crate) fn aggregate(
        &mut self,
        function: functions::Aggregate,
        argument: Option<&Term>,
        result: CqlType,
    ) -> Result<(Expr, CqlType), CqlError> {
        if !self.selecting {
            return Err(invalid!(
                "aggregation function are not supported in the where clause"
            ));
        }
        if self.in_aggregate {
            return Err(invalid!(
                "aggregate functions cannot be used as arguments of aggregate functions"
            ));
        }
        let (mut expr, mut argument_type) = (None, CqlType::BigInt);
        if let Some(argument) = argument {
            self.in_aggregate = true;
            let typed = self.infer(argument, None);
            self.in_aggregate = false;
            let (typed, cql_type) = typed?;
            expr = Some(typed);
            argument_type = cql_type;
        }
        self.aggregates.push(AggregateCall {
            function,
            argument: expr,
            argument_type,
        });
        Ok((Expr::Aggregate(self.aggregates.len() - 1), result))
    }

    fn cell_fact(
        &mut self,
        fact: crate::ast::CellFact,
        of: &Term,
    ) -> Result<(Expr, CqlType), CqlError> {
        use crate::ast::CellFact;
        let Term::Column(name) = of else {
            return Err(CqlError::unsupported(&format!(
                "{} of a part of a column",
                fact.name()
            )));
        };
        let table = self
            .table
            .clone()
            .ok_or_else(|| invalid!("Undefined column name {name}"))?;
        let column = column_of(&table, name)?;
        if matches!(
            column.kind,
            helenus_schema::ColumnKind::PartitionKey | helenus_schema::ColumnKind::Clustering
        ) {
            return Err(invalid!(
                "Cannot use selection function {} on PRIMARY KEY part {name}",
                fact.name()
            ));
        }
        let simple = if fact == CellFact::Ttl {
            CqlType::Int
        } else {
            CqlType::BigInt
        };
        let multi_cell = column.cql_type.is_multi_cell();
        let result = if multi_cell && fact != CellFact::MaxWriteTime {
            CqlType::List {
                element: Arc::new(simple),
                frozen: false,
            }
        } else {
            simple
        };
        Ok((
            Expr::Fact {
                fact,
                column: self.fetch(column.id),
                multi_cell,
            },
            result,
        ))
    }

    fn field(&mut self, value: &Term, field: &str) -> Result<(Expr, CqlType), CqlError> {
        let (expr, cql_type) = self.infer(value, None)?;
        let CqlType::Udt(user_type) = &cql_type else {
            return Err(invalid!(
                "Invalid field selection: {} of type {cql_type} is not a user type",
                text::term(value)
            ));
        };
        let index = user_type
            .fields
            .iter()
            .position(|entry| entry.0 == field)
            .ok_or_else(|| {
                invalid!("{cql_type} of type {} has no field {field}", user_type.name)
            })?;
        let result = user_type.fields[index].1.clone();
        Ok((
            Expr::Field {
                value: Box::new(expr),
                user_type: Arc::clone(user_type),
                index,
            },
            result,
        ))
    }

    fn element(&mut self, value: &Term, key: &Term) -> Result<(Expr, CqlType), CqlError> {
        let (expr, collection) = self.infer(value, None)?;
        let (key_type, result) = match &collection {
            CqlType::Map { key, value, .. } => ((**key).clone(), (**value).clone()),
            CqlType::Set { element, .. } => ((**element).clone(), (**element).clone()),
            other => {
                return Err(invalid!(
                    "Invalid element selection: {} is of type {other} is not a collection",
                    text::term(value)
                ));
            }
        };
        let receiver = Receiver::new(format!("key({})", text::term(value)), key_type);
        let key = Box::new(self.term(key, &receiver)?);
        Ok((
            Expr::Element {
                value: Box::new(expr),
                collection,
                key,
            },
            result,
        ))
    }

    fn range(
        &mut self,
        value: &Term,
        from: Option<&Term>,
        to: Option<&Term>,
    ) -> Result<(Expr, CqlType), CqlError> {
        let (expr, collection) = self.infer(value, None)?;
        let key_type = match &collection {
            CqlType::Map { key, .. } => (**key).clone(),
            CqlType::Set { element, .. } => (**element).clone(),
            other => {
                return Err(invalid!(
                    "Slice selection is not allowed on {} of type {other}",
                    text::term(value)
                ));
            }
        };
        let receiver = Receiver::new(format!("key({})", text::term(value)), key_type);
        let mut bound = |term: Option<&Term>| {
            term.map(|term| self.term(term, &receiver).map(Box::new))
                .transpose()
        };
        let (from, to) = (bound(from)?, bound(to)?);
        Ok((
            Expr::Range {
                value: Box::new(expr),
                collection: collection.clone(),
                from,
                to,
            },
            collection,
        ))
    }

    /// A written type with names resolved.
    pub(crate) fn resolve_type(&self, raw: &RawType) -> Result<CqlType, CqlError> {
        let keyspace = self.table.as_ref().map(|table| table.keyspace.clone());
        resolve_type(raw, self.schema, keyspace.as_deref())
    }
}

/// The column of a table, or Cassandra's error.
pub(crate) fn column_of<'t>(
    table: &'t TableMetadata,
    name: &str,
) -> Result<&'t helenus_schema::Column, CqlError> {
    table.column(name).ok_or_else(|| {
        invalid!(
            "Undefined column name {} in table {}.{}",
            helenus_types::cql_name::quote_name(name),
            helenus_types::cql_name::quote_name(&table.keyspace),
            helenus_types::cql_name::quote_name(&table.name)
        )
    })
}

/// Whether a value of one type may be given where another is wanted.
pub(crate) fn assignable_type(from: &CqlType, to: &CqlType) -> bool {
    if from == to || from.freeze() == to.freeze() {
        return true;
    }
    matches!(
        (from, to),
        (CqlType::Ascii, CqlType::Text)
            | (CqlType::TimeUuid, CqlType::Uuid)
            | (CqlType::Counter, CqlType::BigInt)
            | (CqlType::BigInt, CqlType::Counter | CqlType::Timestamp)
            | (CqlType::Custom(_), CqlType::Blob)
    )
}

fn literal_suits(kind: LiteralKind, target: &CqlType) -> bool {
    use CqlType as T;
    match kind {
        LiteralKind::String => matches!(
            target,
            T::Ascii | T::Text | T::Inet | T::Date | T::Time | T::Timestamp | T::Custom(_)
        ),
        LiteralKind::Integer => matches!(
            target,
            T::BigInt
                | T::Counter
                | T::Date
                | T::Decimal
                | T::Double
                | T::Duration
                | T::Float
                | T::Int
                | T::SmallInt
                | T::Time
                | T::Timestamp
                | T::TinyInt
                | T::VarInt
        ),
        LiteralKind::Float => matches!(target, T::Decimal | T::Double | T::Float),
        LiteralKind::Boolean => *target == T::Boolean,
        LiteralKind::Uuid => matches!(target, T::Uuid | T::TimeUuid),
        LiteralKind::Hex => matches!(target, T::Blob | T::Custom(_)),
        LiteralKind::Duration => *target == T::Duration,
    }
}

fn preferred_type(kind: LiteralKind, text: &str) -> CqlType {
    match kind {
        LiteralKind::String => CqlType::Text,
        LiteralKind::Integer if text.parse::<i32>().is_ok() => CqlType::Int,
        LiteralKind::Integer if text.parse::<i64>().is_ok() => CqlType::BigInt,
        LiteralKind::Integer => CqlType::VarInt,
        LiteralKind::Float => CqlType::Double,
        LiteralKind::Boolean => CqlType::Boolean,
        LiteralKind::Uuid => CqlType::Uuid,
        LiteralKind::Hex => CqlType::Blob,
        LiteralKind::Duration => CqlType::Duration,
    }
}

/// The bytes of a literal for its receiver.
pub(crate) fn constant(
    kind: LiteralKind,
    text: &str,
    receiver: &Receiver,
) -> Result<Bytes, CqlError> {
    if !literal_suits(kind, &receiver.cql_type) {
        return Err(invalid!(
            "Invalid {} constant ({text}) for \"{}\" of type {}",
            kind.word(),
            receiver.name,
            receiver.cql_type
        ));
    }
    let text = if kind == LiteralKind::Hex {
        text.get(2..).unwrap_or_default()
    } else {
        text
    };
    let bytes = receiver.cql_type.parse_plain(text)?;
    Ok(bytes)
}
