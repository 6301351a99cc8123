//! From a function's name and arguments to the function.

use super::{Aggregate, Function, Kind};
use crate::analysis::{Analysis, Receiver};
use crate::ast::{QualifiedName, Term};
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use crate::text;
use helenus_types::CqlType;
use std::sync::Arc;

type Typed = (Expr, CqlType);
/// Makes a function of its argument's type.
type Make = fn(CqlType) -> Kind;

/// Finds a function and types its arguments.
pub(crate) fn resolve(
    analysis: &mut Analysis<'_>,
    name: &QualifiedName,
    arguments: &[Term],
    wanted: Option<&CqlType>,
) -> Result<Typed, CqlError> {
    let lower = name.name.to_ascii_lowercase();
    if name
        .keyspace
        .as_deref()
        .is_some_and(|keyspace| keyspace != "system")
    {
        return Err(invalid!(
            "Unknown function '{}.{lower}'",
            name.keyspace.as_deref().unwrap_or_default()
        ));
    }
    if let Some(found) = aggregates(analysis, &lower, arguments)? {
        return Ok(found);
    }
    if lower == "token" {
        return token(analysis, arguments);
    }
    if matches!(lower.as_str(), "tojson" | "to_json") {
        let (expr, cql_type) = one(analysis, &lower, arguments, None)?;
        return Ok(call(
            &lower,
            Kind::ToJson(cql_type),
            vec![expr],
            CqlType::Text,
        ));
    }
    if matches!(lower.as_str(), "fromjson" | "from_json") {
        let target = wanted.cloned().ok_or_else(|| {
            invalid!("{lower}() cannot be used in the selection clause of a SELECT statement")
        })?;
        let (expr, _) = one(analysis, &lower, arguments, Some(&CqlType::Text))?;
        return Ok(call(
            &lower,
            Kind::FromJson(target.clone()),
            vec![expr],
            target,
        ));
    }
    if let Some(found) = blobs(analysis, &lower, arguments)? {
        return Ok(found);
    }
    if let Some(found) = collections(analysis, &lower, arguments)? {
        return Ok(found);
    }
    times(analysis, &lower, arguments)
}

fn call(name: &str, kind: Kind, arguments: Vec<Expr>, result: CqlType) -> Typed {
    (
        Expr::Call(Arc::new(Function::new(name, kind)), arguments),
        result,
    )
}

fn wrong_count(name: &str, expected: usize, found: usize) -> CqlError {
    invalid!(
        "Invalid number of arguments in call to function system.{name}: {expected} required but {found} provided"
    )
}

/// The only argument, typed.
fn one(
    analysis: &mut Analysis<'_>,
    name: &str,
    arguments: &[Term],
    cql_type: Option<&CqlType>,
) -> Result<Typed, CqlError> {
    let [argument] = arguments else {
        return Err(wrong_count(name, 1, arguments.len()));
    };
    match cql_type {
        None => analysis.infer(argument, None),
        Some(cql_type) => {
            if !analysis.assignable(argument, cql_type) {
                return Err(invalid!(
                    "Type error: {} cannot be passed as argument 0 of function system.{name} of type {cql_type}",
                    text::term(argument)
                ));
            }
            let receiver = Receiver::new(format!("arg0(system.{name})"), cql_type.clone());
            Ok((analysis.term(argument, &receiver)?, cql_type.clone()))
        }
    }
}

/// The only argument as the first of these types that it suits.
fn one_of(
    analysis: &mut Analysis<'_>,
    name: &str,
    arguments: &[Term],
    types: &[CqlType],
) -> Result<Typed, CqlError> {
    let [argument] = arguments else {
        return Err(wrong_count(name, 1, arguments.len()));
    };
    let exact = analysis
        .type_of(argument, None)
        .filter(|own| types.contains(own));
    let chosen = exact.or_else(|| {
        types
            .iter()
            .find(|cql_type| analysis.assignable(argument, cql_type))
            .cloned()
    });
    let Some(chosen) = chosen else {
        let known: Vec<_> = types
            .iter()
            .map(|cql_type| format!("system.{name} : ({cql_type})"))
            .collect();
        return Err(invalid!(
            "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
            known.join(", ")
        ));
    };
    one(analysis, name, arguments, Some(&chosen))
}

fn token(analysis: &mut Analysis<'_>, arguments: &[Term]) -> Result<Typed, CqlError> {
    let table = analysis
        .table
        .clone()
        .ok_or_else(|| invalid!("token() needs a table"))?;
    let key = table.partition_key();
    if arguments.len() != key.len() {
        return Err(wrong_count("token", key.len(), arguments.len()));
    }
    let mut typed = Vec::with_capacity(key.len());
    for (at, (argument, column)) in arguments.iter().zip(key).enumerate() {
        if !analysis.assignable(argument, &column.cql_type) {
            return Err(invalid!(
                "Type error: {} cannot be passed as argument {at} of function system.token of type {}",
                text::term(argument),
                column.cql_type
            ));
        }
        let receiver = Receiver::new(format!("arg{at}(system.token)"), column.cql_type.clone());
        typed.push(analysis.term(argument, &receiver)?);
    }
    Ok(call("token", Kind::Token, typed, CqlType::BigInt))
}

/// The type whose name stands between `prefix` and `suffix`.
fn named_type(name: &str, prefix: &str, suffix: &str) -> Option<CqlType> {
    let inner = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    CqlType::from_simple_name(inner)
        .filter(|found| !matches!(found, CqlType::Blob | CqlType::Empty))
}

fn blobs(
    analysis: &mut Analysis<'_>,
    name: &str,
    arguments: &[Term],
) -> Result<Option<Typed>, CqlError> {
    if let Some(from) = named_type(name, "", "_as_blob").or_else(|| named_type(name, "", "asblob"))
    {
        let (expr, _) = one(analysis, name, arguments, Some(&from))?;
        return Ok(Some(call(name, Kind::ToBlob, vec![expr], CqlType::Blob)));
    }
    if let Some(target) =
        named_type(name, "blob_as_", "").or_else(|| named_type(name, "blobas", ""))
    {
        let (expr, _) = one(analysis, name, arguments, Some(&CqlType::Blob))?;
        return Ok(Some(call(
            name,
            Kind::FromBlob(target.clone()),
            vec![expr],
            target,
        )));
    }
    Ok(None)
}

fn collections(
    analysis: &mut Analysis<'_>,
    name: &str,
    arguments: &[Term],
) -> Result<Option<Typed>, CqlError> {
    if !matches!(name, "map_keys" | "map_values" | "collection_count") {
        return Ok(None);
    }
    let (expr, cql_type) = one(analysis, name, arguments, None)?;
    Ok(Some(match (name, &cql_type) {
        ("map_keys", CqlType::Map { key, .. }) => {
            let result = CqlType::Set {
                element: Arc::clone(key),
                frozen: false,
            };
            call(name, Kind::MapKeys, vec![expr], result)
        }
        ("map_values", CqlType::Map { value, .. }) => {
            let result = CqlType::List {
                element: Arc::clone(value),
                frozen: false,
            };
            call(name, Kind::MapValues, vec![expr], result)
        }
        ("collection_count", CqlType::Map { .. } | CqlType::List { .. } | CqlType::Set { .. }) => {
            call(
                name,
                Kind::CollectionCount(cql_type),
                vec![expr],
                CqlType::Int,
            )
        }
        _ => {
            return Err(invalid!(
                "Function system.{name} cannot be called with an argument of type {cql_type}"
            ));
        }
    }))
}

fn times(analysis: &mut Analysis<'_>, name: &str, arguments: &[Term]) -> Result<Typed, CqlError> {
    let without = match name {
        "now" | "currenttimeuuid" | "current_timeuuid" => Some((Kind::Now, CqlType::TimeUuid)),
        "uuid" => Some((Kind::Uuid, CqlType::Uuid)),
        "currenttimestamp" | "current_timestamp" => {
            Some((Kind::CurrentTimestamp, CqlType::Timestamp))
        }
        "currentdate" | "current_date" => Some((Kind::CurrentDate, CqlType::Date)),
        "currenttime" | "current_time" => Some((Kind::CurrentTime, CqlType::Time)),
        _ => None,
    };
    if let Some((kind, result)) = without {
        if !arguments.is_empty() {
            return Err(wrong_count(name, 0, arguments.len()));
        }
        return Ok(call(name, kind, Vec::new(), result));
    }
    let with = |types: &[CqlType]| types.to_vec();
    let (types, make, result): (Vec<CqlType>, Make, CqlType) = match name {
        "todate" | "to_date" => (
            with(&[CqlType::TimeUuid, CqlType::Timestamp]),
            Kind::ToDate,
            CqlType::Date,
        ),
        "totimestamp" | "to_timestamp" => (
            with(&[CqlType::TimeUuid, CqlType::Date]),
            Kind::ToTimestamp,
            CqlType::Timestamp,
        ),
        "tounixtimestamp" | "to_unix_timestamp" => (
            with(&[CqlType::TimeUuid, CqlType::Timestamp, CqlType::Date]),
            Kind::ToUnixTimestamp,
            CqlType::BigInt,
        ),
        "dateof" => (
            with(&[CqlType::TimeUuid]),
            Kind::ToTimestamp,
            CqlType::Timestamp,
        ),
        "unixtimestampof" => (
            with(&[CqlType::TimeUuid]),
            Kind::ToUnixTimestamp,
            CqlType::BigInt,
        ),
        "mintimeuuid" | "min_timeuuid" => (
            with(&[CqlType::Timestamp]),
            |_| Kind::MinTimeUuid,
            CqlType::TimeUuid,
        ),
        "maxtimeuuid" | "max_timeuuid" => (
            with(&[CqlType::Timestamp]),
            |_| Kind::MaxTimeUuid,
            CqlType::TimeUuid,
        ),
        _ => return Err(invalid!("Unknown function '{name}'")),
    };
    let (expr, from) = one_of(analysis, name, arguments, &types)?;
    Ok(call(name, make(from), vec![expr], result))
}

fn aggregates(
    analysis: &mut Analysis<'_>,
    name: &str,
    arguments: &[Term],
) -> Result<Option<Typed>, CqlError> {
    let function = match name {
        "count" => Aggregate::Count,
        "min" => Aggregate::Min,
        "max" => Aggregate::Max,
        "sum" => Aggregate::Sum,
        "avg" => Aggregate::Average,
        "countrows" => Aggregate::CountRows,
        _ => return Ok(None),
    };
    if function == Aggregate::CountRows {
        return analysis
            .aggregate(function, None, CqlType::BigInt)
            .map(Some);
    }
    let [argument] = arguments else {
        return Err(wrong_count(name, 1, arguments.len()));
    };
    if matches!(argument, Term::Literal(..)) && function == Aggregate::Count {
        // `count(1)` counts rows
        return analysis
            .aggregate(Aggregate::CountRows, None, CqlType::BigInt)
            .map(Some);
    }
    let cql_type = analysis.type_of(argument, None);
    if matches!(function, Aggregate::Sum | Aggregate::Average)
        && let Some(cql_type) = &cql_type
        && !super::arithmetic::is_number(cql_type)
    {
        let known = [
            "double", "counter", "float", "bigint", "smallint", "varint", "tinyint", "int",
            "decimal",
        ]
        .map(|t| format!("system.{name} : ({t}) -> {t}"));
        return Err(invalid!(
            "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
            known.join(", ")
        ));
    }
    let (expr, _) = analysis.aggregate(function, Some(argument), CqlType::BigInt)?;
    let result = match function {
        Aggregate::Count => CqlType::BigInt,
        _ => analysis
            .aggregates
            .last()
            .map_or(CqlType::BigInt, |call| call.argument_type.clone()),
    };
    Ok(Some((expr, result)))
}
