//! Terms and relations back to text, as Cassandra's messages and column names show them.

use crate::ast::{Comparison, InValues, LiteralKind, Relation, Term};
use helenus_types::cql_name::quote_name;
use helenus_types::literal::quote_text;

fn join<'a>(items: impl IntoIterator<Item = &'a Term>) -> String {
    items.into_iter().map(term).collect::<Vec<_>>().join(", ")
}

/// A term as text.
pub(crate) fn term(value: &Term) -> String {
    match value {
        Term::Literal(LiteralKind::String, text) => quote_text(text),
        Term::Literal(_, text) => text.clone(),
        Term::Null => "NULL".into(),
        Term::Marker(marker) => marker
            .name
            .as_ref()
            .map_or_else(|| "?".into(), |name| format!(":{name}")),
        Term::List(items) => format!("[{}]", join(items)),
        Term::Set(items) => format!("{{{}}}", join(items)),
        Term::Map(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", term(key), term(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Term::Tuple(items) => format!("({})", join(items)),
        Term::UserType(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{name}: {}", term(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Term::Function(name, arguments) => {
            let keyspace = name
                .keyspace
                .as_ref()
                .map_or_else(String::new, |keyspace| format!("{keyspace}."));
            format!("{keyspace}{}({})", name.name, join(arguments))
        }
        Term::Hint(_, value) => term(value),
        Term::Cast(value, target) => format!("cast({} as {target})", term(value)),
        Term::Arithmetic(operator, left, right) => {
            format!("{} {} {}", term(left), operator.sign(), term(right))
        }
        Term::Negate(value) => format!("-{}", term(value)),
        Term::Column(name) => quote_name(name),
        Term::CountStar => "count(*)".into(),
        Term::Metadata(fact, of) => format!("{}({})", fact.name(), term(of)),
        Term::Field(value, field) => format!("{}.{}", term(value), quote_name(field)),
        Term::Element(value, key) => format!("{}[{}]", term(value), term(key)),
        Term::Range(value, from, to) => {
            let bound = |bound: &Option<Box<Term>>| {
                bound.as_ref().map_or_else(String::new, |bound| term(bound))
            };
            format!("{}[{}..{}]", term(value), bound(from), bound(to))
        }
    }
}

/// A relation as text.
pub(crate) fn relation(value: &Relation) -> String {
    let columns = |columns: &[String]| {
        columns
            .iter()
            .map(|name| quote_name(name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let list = |values: &InValues| match values {
        InValues::List(items) => format!("({})", join(items)),
        InValues::Marker(marker) => term(&Term::Marker(marker.clone())),
    };
    let sign = |comparison: &Comparison| comparison.sign();
    match value {
        Relation::Column {
            column,
            comparison,
            value,
        } => {
            format!(
                "{} {} {}",
                quote_name(column),
                sign(comparison),
                term(value)
            )
        }
        Relation::In { column, values } => format!("{} IN {}", quote_name(column), list(values)),
        Relation::Tuple {
            columns: names,
            comparison,
            value,
        } => {
            format!("({}) {} {}", columns(names), sign(comparison), term(value))
        }
        Relation::TupleIn {
            columns: names,
            values,
        } => format!("({}) IN {}", columns(names), list(values)),
        Relation::Token {
            columns: names,
            comparison,
            value,
        } => {
            format!(
                "token({}) {} {}",
                columns(names),
                sign(comparison),
                term(value)
            )
        }
        Relation::MapEntry {
            column,
            key,
            comparison,
            value,
        } => {
            format!(
                "{}[{}] {} {}",
                quote_name(column),
                term(key),
                sign(comparison),
                term(value)
            )
        }
        Relation::IsNotNull { column } => format!("{} IS NOT NULL", quote_name(column)),
        Relation::CustomIndex { index } => format!("expr({index},...)"),
    }
}
