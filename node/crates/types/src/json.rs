//! JSON texts of values, as `SELECT JSON` and `toJson` print them and `INSERT JSON` and `fromJson`
//! read them (`toJSONString` and `fromJSONObject` of each type). Numbers keep their digits.

use crate::calendar;
use crate::cql_type::{CqlType, UserType};
use crate::elements;
use crate::json_parse::Json;
use crate::literal::{format_inet, plain};
use crate::value::{Value, ValueError};
use bytes::Bytes;
use std::fmt::Write as _;

/// The characters of a JSON string's inside, escaped as Jackson does.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => write!(out, "\\u{:04X}", u32::from(c)).unwrap_or_default(),
            c => out.push(c),
        }
    }
    out
}

impl CqlType {
    /// The serialized value as JSON.
    pub fn to_json(&self, bytes: &Bytes) -> Result<String, ValueError> {
        Ok(self.json_of(&self.decode(bytes)?))
    }

    /// [`Self::to_json`] of a decoded value.
    pub fn json_of(&self, value: &Value) -> String {
        match (self, value) {
            (Self::List { element, .. }, Value::List(values))
            | (Self::Set { element, .. }, Value::Set(values))
            | (Self::Vector { element, .. }, Value::Vector(values)) => {
                array(values.iter().map(|v| element.json_of(v)))
            }
            (Self::Map { key, value, .. }, Value::Map(entries)) => object(
                entries
                    .iter()
                    .map(|(k, v)| (map_key(&key.json_of(k)), value.json_of(v))),
            ),
            (Self::Tuple(types), Value::Tuple(fields)) => array(
                types
                    .iter()
                    .enumerate()
                    .map(|(i, t)| json_or_null(t, fields.get(i).and_then(Option::as_ref))),
            ),
            (Self::Udt(user_type), Value::Udt(fields)) => {
                object(user_type.fields.iter().enumerate().map(|(i, (name, t))| {
                    let field = fields.get(i).and_then(Option::as_ref);
                    (
                        format!("\"{}\"", escape(&json_name(name))),
                        json_or_null(t, field),
                    )
                }))
            }
            _ => scalar(value),
        }
    }

    /// The serialized value of a JSON text.
    pub fn from_json(&self, text: &str) -> Result<Option<Bytes>, ValueError> {
        self.from_json_value(&Json::parse(text)?)
    }

    /// The serialized value of parsed JSON; `None` for null.
    pub fn from_json_value(&self, json: &Json) -> Result<Option<Bytes>, ValueError> {
        let compound = matches!(
            self,
            Self::List { .. }
                | Self::Set { .. }
                | Self::Map { .. }
                | Self::Tuple(_)
                | Self::Udt(_)
                | Self::Vector { .. }
        );
        match json {
            Json::Null => Ok(None),
            // Compound values may be given as a string that holds their JSON.
            Json::String(inner) if compound => {
                self.compound_from_json(&Json::parse(inner)?).map(Some)
            }
            _ if compound => self.compound_from_json(json).map(Some),
            _ => self.simple_from_json(json).map(Some),
        }
    }

    fn simple_from_json(&self, json: &Json) -> Result<Bytes, ValueError> {
        match (self, json) {
            (Self::Blob | Self::Custom(_), Json::String(text)) => match text.strip_prefix("0x") {
                Some(digits) => self.parse_plain(digits).map_err(|error| {
                    ValueError::new(format!(
                        "Value '{text}' is not a valid blob representation: {error}"
                    ))
                }),
                None => Err(ValueError::new(format!(
                    "Value '{text}' is not a valid blob representation: String representation of blob is missing 0x prefix: {text}"
                ))),
            },
            (_, Json::String(text)) => self.parse_plain(text),
            (Self::Boolean, Json::Bool(b)) => self.encode(&Value::Boolean(*b)),
            (
                Self::Int
                | Self::BigInt
                | Self::Counter
                | Self::Timestamp
                | Self::SmallInt
                | Self::TinyInt,
                Json::Number(text),
            ) if !text.contains(['.', 'e', 'E']) => {
                self.parse_plain(text).map_err(|_| self.unexpected(json))
            }
            (Self::VarInt | Self::Decimal | Self::Float | Self::Double, Json::Number(text)) => {
                self.parse_plain(text).map_err(|_| self.unexpected(json))
            }
            _ => Err(self.unexpected(json)),
        }
    }

    fn unexpected(&self, json: &Json) -> ValueError {
        let expected = match self {
            Self::Ascii => "an ascii string",
            Self::Text => "a UTF-8 string",
            Self::Boolean => "a boolean value",
            Self::TinyInt => "a byte value",
            Self::SmallInt => "a short value",
            Self::Int => "an int value",
            Self::BigInt | Self::Counter => "a bigint value",
            Self::Float => "a float value",
            Self::Double => "a double value",
            Self::Inet => "a string representation of an inet value",
            Self::Uuid => "a string representation of a uuid",
            Self::TimeUuid => "a string representation of a timeuuid",
            Self::Date => "a string representation of a date value",
            Self::Time => "a string representation of a time value",
            Self::Duration => "a string representation of a duration",
            Self::Timestamp => "a long or a datestring representation of a timestamp value",
            Self::List { .. } | Self::Vector { .. } => "a list",
            Self::Set { .. } => "a list (representing a set)",
            Self::Tuple(_) => "a list representation of a tuple",
            Self::Map { .. } | Self::Udt(_) => "a map",
            Self::Decimal => {
                return ValueError::new(format!(
                    "Value '{json}' is not a valid representation of a decimal value"
                ));
            }
            Self::VarInt => {
                return ValueError::new(format!(
                    "Value '{json}' is not a valid representation of a varint value"
                ));
            }
            Self::Blob | Self::Custom(_) => {
                return ValueError::new(format!(
                    "Value '{json}' is not a valid blob representation: not a string"
                ));
            }
            Self::Empty => {
                return ValueError::new(format!("Expected an empty string, but got: {json}"));
            }
        };
        ValueError::new(format!(
            "Expected {expected}, but got a {}: {json}",
            json.java_class()
        ))
    }

    fn compound_from_json(&self, json: &Json) -> Result<Bytes, ValueError> {
        match (self, json) {
            (Self::List { element, .. }, Json::Array(items)) => {
                elements::write_list(&each(element, items, "list")?)
            }
            (Self::Set { element, .. }, Json::Array(items)) => set_from_json(element, items),
            (Self::Vector { element, dimension }, Json::Array(items)) => {
                if u32::try_from(items.len()) != Ok(*dimension) {
                    return Err(ValueError::new(format!(
                        "List had incorrect size: expected {dimension} but given {}; {json}",
                        items.len()
                    )));
                }
                elements::write_vector(element, &each(element, items, "list")?)
            }
            (Self::Map { key, value, .. }, Json::Object(members)) => {
                map_from_json(key, value, members)
            }
            (Self::Tuple(types), Json::Array(items)) => {
                if items.len() != types.len() {
                    let what = if items.len() > types.len() {
                        "contains extra items"
                    } else {
                        "is missing items"
                    };
                    return Err(ValueError::new(format!(
                        "Tuple {what} (expected {}): {json}",
                        types.len()
                    )));
                }
                let fields: Result<Vec<_>, _> = types
                    .iter()
                    .zip(items)
                    .map(|(t, item)| t.from_json_value(item))
                    .collect();
                elements::write_fields(&fields?)
            }
            (Self::Udt(user_type), Json::Object(members)) => udt_from_json(user_type, members),
            _ => Err(self.unexpected(json)),
        }
    }
}

fn set_from_json(element: &CqlType, items: &[Json]) -> Result<Bytes, ValueError> {
    let mut parts = each(element, items, "set")?;
    parts.sort_by(|a, b| element.compare(a, b));
    parts.dedup_by(|a, b| element.compare(a, b).is_eq());
    elements::write_list(&parts)
}

fn map_from_json(
    key: &CqlType,
    value: &CqlType,
    members: &[(String, Json)],
) -> Result<Bytes, ValueError> {
    let mut entries = Vec::with_capacity(members.len());
    for (name, member) in members {
        let name = key.from_json_value(&Json::String(name.clone()))?;
        let name = name.ok_or_else(|| ValueError::new("Invalid null key in map"))?;
        let member = value.from_json_value(member)?;
        entries.push((
            name,
            member.ok_or_else(|| ValueError::new("Invalid null value in map"))?,
        ));
    }
    entries.sort_by(|a, b| key.compare(&a.0, &b.0));
    elements::write_map(&entries)
}

/// Fields that are not named are null; of a field named twice the last counts.
fn udt_from_json(user_type: &UserType, members: &[(String, Json)]) -> Result<Bytes, ValueError> {
    let members: Vec<_> = members
        .iter()
        .map(|(name, member)| (column_name(name), member))
        .collect();
    let known = |name: &str| user_type.fields.iter().any(|field| field.0 == name);
    if let Some((name, _)) = members.iter().find(|member| !known(&member.0)) {
        return Err(ValueError::new(format!(
            "Unknown field '{name}' in value of user defined type {}",
            user_type.name
        )));
    }
    let field = |(name, t): &(String, CqlType)| {
        members
            .iter()
            .rev()
            .find(|member| member.0 == *name)
            .map_or(Ok(None), |member| t.from_json_value(member.1))
    };
    let fields: Result<Vec<_>, _> = user_type.fields.iter().map(field).collect();
    elements::write_fields(&fields?)
}

/// A value that holds no others: numbers and booleans as they are, all else as a string.
fn scalar(value: &Value) -> String {
    match value {
        Value::Empty => "\"\"".into(),
        Value::Text(text) => format!("\"{}\"", escape(text)),
        Value::Blob(_) => format!("\"0x{}\"", plain(value)),
        Value::Timestamp(millis) => format!("\"{}\"", calendar::format_timestamp(*millis, ' ')),
        Value::Inet(address) => format!("\"{}\"", format_inet(address)),
        Value::Float(n) if !n.is_finite() => "null".into(),
        Value::Double(n) if !n.is_finite() => "null".into(),
        Value::Date(_)
        | Value::Time(_)
        | Value::Duration(_)
        | Value::Uuid(_)
        | Value::TimeUuid(_) => format!("\"{}\"", plain(value)),
        _ => plain(value),
    }
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn object(members: impl Iterator<Item = (String, String)>) -> String {
    let members: Vec<_> = members
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// The key of a map, which JSON wants as a string whatever its type.
fn map_key(json: &str) -> String {
    if json.starts_with('"') {
        json.to_owned()
    } else {
        format!("\"{}\"", escape(json))
    }
}

fn each(element: &CqlType, items: &[Json], kind: &str) -> Result<Vec<Bytes>, ValueError> {
    let null = || ValueError::new(format!("Invalid null element in {kind}"));
    items
        .iter()
        .map(|item| element.from_json_value(item)?.ok_or_else(null))
        .collect()
}

fn json_or_null(t: &CqlType, field: Option<&Value>) -> String {
    field.map_or_else(|| "null".into(), |value| t.json_of(value))
}

/// A column's or field's name as a JSON key: in double quotes when it is not all lower case.
pub fn json_name(name: &str) -> String {
    if name == name.to_lowercase() {
        name.to_owned()
    } else {
        format!("\"{name}\"")
    }
}

/// The inverse of [`json_name`]: quotes are dropped, names without them are in lower case.
pub fn column_name(key: &str) -> String {
    match key
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        Some(inner) if !inner.is_empty() => inner.to_owned(),
        _ => key.to_lowercase(),
    }
}
