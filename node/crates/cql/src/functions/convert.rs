//! `CAST` and `fromJson`.

use super::arithmetic::{encode, is_number, number};
use super::{Function, Kind, millis_of};
use crate::error::{CqlError, invalid};
use bytes::Bytes;
use helenus_types::CqlType;

/// The function that casts one type to another.
pub(crate) fn cast(from: &CqlType, to: &CqlType) -> Result<Function, CqlError> {
    let time = |t: &CqlType| matches!(t, CqlType::Timestamp | CqlType::Date | CqlType::TimeUuid);
    let text = |t: &CqlType| matches!(t, CqlType::Text | CqlType::Ascii);
    let simple = |t: &CqlType| {
        is_number(t)
            || time(t)
            || text(t)
            || matches!(
                t,
                CqlType::Boolean | CqlType::Uuid | CqlType::Time | CqlType::Inet
            )
    };
    let possible = from == to
        || (is_number(from) && is_number(to) && *to != CqlType::Counter)
        || (text(to) && simple(from))
        || (matches!(to, CqlType::Timestamp | CqlType::Date) && time(from));
    if !possible {
        return Err(invalid!("{from} cannot be cast to {to}"));
    }
    let name = format!("castAs{}", capitalized(&to.to_string()));
    Ok(Function::new(
        &name,
        Kind::Cast {
            from: from.clone(),
            to: to.clone(),
        },
    ))
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// A value of one type as another.
pub(super) fn convert(
    from: &CqlType,
    to: &CqlType,
    bytes: &Bytes,
) -> Result<Option<Bytes>, CqlError> {
    if from == to {
        return Ok(Some(bytes.clone()));
    }
    if matches!(to, CqlType::Text | CqlType::Ascii) {
        return Ok(Some(Bytes::from(from.format_plain(bytes)?)));
    }
    if let Some(value) = number(from, bytes)? {
        return encode(&value, to);
    }
    let Some(millis) = millis_of(from, bytes)? else {
        return Ok(None);
    };
    let value = match to {
        CqlType::Date => helenus_types::Value::Date(super::days(millis)),
        _ => helenus_types::Value::Timestamp(millis),
    };
    Ok(Some(to.encode(&value)?))
}

/// A JSON text as a value of a type.
pub(super) fn from_json(target: &CqlType, text: &Bytes) -> Result<Option<Bytes>, CqlError> {
    let text = std::str::from_utf8(text).map_err(|_| invalid!("String didn't validate."))?;
    Ok(target.from_json(text)?)
}
