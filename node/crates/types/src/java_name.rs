//! Types by their Java class, as serialization headers of SSTables, gossip and the custom option of
//! the native protocol name them: `org.apache.cassandra.db.marshal.ListType(...)`.
//!
//! A frozen collection or user type is wrapped in `FrozenType(...)` once; what it holds is written
//! without the wrapper and read as frozen again (Cassandra's `AbstractType.toString(boolean)` and
//! `TypeParser`).

use crate::cql_type::{CqlType, UserType};
use std::fmt::Write as _;
use std::sync::Arc;

/// The package of Cassandra's own types; a name without a dot belongs to it.
pub const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// How deep types may nest in a name; deeper ones are refused.
const DEPTH_LIMIT: usize = 64;

/// A type name that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read type name '{name}': {reason}")]
pub struct TypeNameError {
    /// The text.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl TypeNameError {
    pub(crate) fn new(name: &str, reason: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Simple types and their classes.
const SIMPLE: [(CqlType, &str); 22] = [
    (CqlType::Ascii, "AsciiType"),
    (CqlType::BigInt, "LongType"),
    (CqlType::Blob, "BytesType"),
    (CqlType::Boolean, "BooleanType"),
    (CqlType::Counter, "CounterColumnType"),
    (CqlType::Date, "SimpleDateType"),
    (CqlType::Decimal, "DecimalType"),
    (CqlType::Double, "DoubleType"),
    (CqlType::Duration, "DurationType"),
    (CqlType::Empty, "EmptyType"),
    (CqlType::Float, "FloatType"),
    (CqlType::Inet, "InetAddressType"),
    (CqlType::Int, "Int32Type"),
    (CqlType::SmallInt, "ShortType"),
    (CqlType::Text, "UTF8Type"),
    (CqlType::Time, "TimeType"),
    (CqlType::Timestamp, "TimestampType"),
    (CqlType::TimeUuid, "TimeUUIDType"),
    (CqlType::TinyInt, "ByteType"),
    (CqlType::Uuid, "UUIDType"),
    (CqlType::VarInt, "IntegerType"),
    // The timestamps of before 1.2: the same values, ordered as unsigned there.
    (CqlType::Timestamp, "DateType"),
];

impl CqlType {
    /// The type's name as a Java class with its parameters, as Cassandra's `toString()`.
    pub fn java_name(&self) -> String {
        let mut out = String::new();
        self.write_java_name(&mut out, false);
        out
    }

    /// [`Self::java_name`], wrapped in `ReversedType(...)` when `reversed`.
    pub fn java_name_with_order(&self, reversed: bool) -> String {
        if reversed {
            format!("{PACKAGE}ReversedType({})", self.java_name())
        } else {
            self.java_name()
        }
    }

    /// The type that a Java class name stands for. `ReversedType(X)` gives X. An unknown class
    /// becomes [`CqlType::Custom`].
    pub fn from_java_name(name: &str) -> Result<Self, TypeNameError> {
        Self::from_java_name_with_order(name).map(|(parsed, _)| parsed)
    }

    /// [`Self::from_java_name`], and whether the name was `ReversedType(...)`.
    pub fn from_java_name_with_order(name: &str) -> Result<(Self, bool), TypeNameError> {
        let mut parser = Parser {
            text: name,
            at: 0,
            depth: 0,
        };
        let parsed = parser.parse()?;
        parser.skip_blank();
        if parser.at < name.len() {
            return Err(parser.error("text follows the type"));
        }
        Ok(parsed)
    }

    fn write_java_name(&self, out: &mut String, ignore_freezing: bool) {
        let wrap = !ignore_freezing && self.is_frozen_wrapped();
        if wrap {
            out.push_str(PACKAGE);
            out.push_str("FrozenType(");
        }
        if !matches!(self, Self::Custom(_)) {
            out.push_str(PACKAGE);
        }
        match self {
            Self::List { element, frozen } => {
                write_parameters(out, "ListType", [&**element], ignore_freezing || *frozen);
            }
            Self::Set { element, frozen } => {
                write_parameters(out, "SetType", [&**element], ignore_freezing || *frozen);
            }
            Self::Map { key, value, frozen } => {
                write_parameters(
                    out,
                    "MapType",
                    [&**key, &**value],
                    ignore_freezing || *frozen,
                );
            }
            Self::Tuple(elements) => write_parameters(out, "TupleType", elements.iter(), true),
            Self::Udt(user_type) => {
                out.push_str("UserType(");
                out.push_str(&user_type.keyspace);
                out.push(',');
                write_hex(out, &user_type.name);
                for (field, field_type) in &user_type.fields {
                    out.push(',');
                    write_hex(out, field);
                    out.push(':');
                    field_type.write_java_name(out, ignore_freezing || user_type.frozen);
                }
                out.push(')');
            }
            Self::Vector { element, dimension } => {
                out.push_str("VectorType(");
                element.write_java_name(out, ignore_freezing);
                // Writing to a string cannot fail.
                write!(out, " , {dimension})").unwrap_or_default();
            }
            Self::Custom(class) => out.push_str(class),
            simple => out.push_str(
                SIMPLE
                    .iter()
                    .find(|entry| entry.0 == *simple)
                    .map_or("BytesType", |entry| entry.1),
            ),
        }
        if wrap {
            out.push(')');
        }
    }

    fn is_frozen_wrapped(&self) -> bool {
        match self {
            Self::List { frozen, .. } | Self::Set { frozen, .. } | Self::Map { frozen, .. } => {
                *frozen
            }
            Self::Udt(user_type) => user_type.frozen,
            _ => false,
        }
    }

    /// The same type with every collection and user type in it frozen.
    #[must_use]
    pub fn freeze(&self) -> Self {
        let inner = |t: &Arc<Self>| Arc::new(t.freeze());
        match self {
            Self::List { element, .. } => Self::List {
                element: inner(element),
                frozen: true,
            },
            Self::Set { element, .. } => Self::Set {
                element: inner(element),
                frozen: true,
            },
            Self::Map { key, value, .. } => Self::Map {
                key: inner(key),
                value: inner(value),
                frozen: true,
            },
            Self::Tuple(elements) => Self::Tuple(elements.iter().map(Self::freeze).collect()),
            Self::Vector { element, dimension } => Self::Vector {
                element: inner(element),
                dimension: *dimension,
            },
            Self::Udt(user_type) => Self::Udt(Arc::new(UserType {
                keyspace: user_type.keyspace.clone(),
                name: user_type.name.clone(),
                fields: user_type
                    .fields
                    .iter()
                    .map(|(name, t)| (name.clone(), t.freeze()))
                    .collect(),
                frozen: true,
            })),
            other => other.clone(),
        }
    }
}

/// The name of a partition key's type: the column's own for one column, else `CompositeType(...)`.
pub fn key_type_name(columns: &[CqlType]) -> String {
    if let [only] = columns {
        return only.java_name();
    }
    let names: Vec<String> = columns.iter().map(CqlType::java_name).collect();
    format!("{PACKAGE}CompositeType({})", names.join(","))
}

/// The inverse of [`key_type_name`]: the types of the partition key's columns.
pub fn parse_key_type(name: &str) -> Result<Vec<CqlType>, TypeNameError> {
    let mut parser = Parser {
        text: name,
        at: 0,
        depth: 0,
    };
    if parser
        .identifier()
        .strip_prefix(PACKAGE)
        .is_some_and(|class| class == "CompositeType")
    {
        return parser.parameters();
    }
    Ok(vec![CqlType::from_java_name(name)?])
}

fn write_parameters<'a>(
    out: &mut String,
    class: &str,
    types: impl IntoIterator<Item = &'a CqlType>,
    ignore: bool,
) {
    out.push_str(class);
    for (index, parameter) in types.into_iter().enumerate() {
        out.push(if index == 0 { '(' } else { ',' });
        parameter.write_java_name(out, ignore);
    }
    out.push(')');
}

fn write_hex(out: &mut String, text: &str) {
    for byte in text.bytes() {
        write!(out, "{byte:02x}").unwrap_or_default();
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, reason: impl Into<String>) -> TypeNameError {
        TypeNameError::new(self.text, format!("{} at byte {}", reason.into(), self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n')) {
            self.at += 1;
        }
    }

    fn skip_blank_and_comma(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b',')) {
            self.at += 1;
        }
    }

    fn identifier(&mut self) -> &'a str {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b"-+._&".contains(&b))
        {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn expect(&mut self, byte: u8) -> Result<(), TypeNameError> {
        self.skip_blank();
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.error(format!("'{}' expected", char::from(byte))))
    }

    fn parse(&mut self) -> Result<(CqlType, bool), TypeNameError> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(self.error("types nest too deep"));
        }
        self.skip_blank();
        let start = self.at;
        let name = self.identifier();
        if name.is_empty() {
            return Err(self.error("a class name is expected"));
        }
        let class = if name.contains('.') {
            name.strip_prefix(PACKAGE)
        } else {
            Some(name)
        };
        let parsed = match class {
            Some("ReversedType") => (self.one_parameter()?, true),
            Some(class) => (self.known_class(class, start)?, false),
            None => (self.unknown(start)?, false),
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn known_class(&mut self, class: &str, start: usize) -> Result<CqlType, TypeNameError> {
        if let Some((simple, _)) = SIMPLE.iter().find(|entry| entry.1 == class) {
            return Ok(simple.clone());
        }
        match class {
            "FrozenType" => Ok(self.one_parameter()?.freeze()),
            "ListType" => Ok(CqlType::List {
                element: Arc::new(self.one_parameter()?.freeze()),
                frozen: false,
            }),
            "SetType" => Ok(CqlType::Set {
                element: Arc::new(self.one_parameter()?.freeze()),
                frozen: false,
            }),
            "MapType" => match <[CqlType; 2]>::try_from(self.parameters()?) {
                Ok([key, value]) => Ok(CqlType::Map {
                    key: Arc::new(key.freeze()),
                    value: Arc::new(value.freeze()),
                    frozen: false,
                }),
                Err(_) => Err(self.error("MapType takes exactly 2 type parameters")),
            },
            "TupleType" => Ok(CqlType::Tuple(
                self.parameters()?.iter().map(CqlType::freeze).collect(),
            )),
            "UserType" => self.user_type(),
            "VectorType" => self.vector(),
            _ => self.unknown(start),
        }
    }

    fn one_parameter(&mut self) -> Result<CqlType, TypeNameError> {
        match <[CqlType; 1]>::try_from(self.parameters()?) {
            Ok([only]) => Ok(only),
            Err(_) => Err(self.error("exactly 1 type parameter expected")),
        }
    }

    fn parameters(&mut self) -> Result<Vec<CqlType>, TypeNameError> {
        self.expect(b'(')?;
        let mut types = Vec::new();
        loop {
            self.skip_blank_and_comma();
            if self.peek() == Some(b')') {
                self.at += 1;
                return Ok(types);
            }
            types.push(self.parse()?.0);
        }
    }

    fn vector(&mut self) -> Result<CqlType, TypeNameError> {
        self.expect(b'(')?;
        let element = Arc::new(self.parse()?.0.freeze());
        if *element == CqlType::Empty {
            // Elements without bytes would put no bound on the dimension.
            return Err(self.error("a vector may not hold empty values"));
        }
        self.skip_blank_and_comma();
        let dimension = self.identifier().parse().ok().filter(|d: &u32| *d > 0);
        self.expect(b')')?;
        let dimension = dimension
            .ok_or_else(|| self.error("a vector's dimension must be a positive number"))?;
        Ok(CqlType::Vector { element, dimension })
    }

    fn user_type(&mut self) -> Result<CqlType, TypeNameError> {
        self.expect(b'(')?;
        self.skip_blank_and_comma();
        let keyspace = self.identifier().to_owned();
        self.skip_blank_and_comma();
        let name = self.hex_name()?;
        let mut fields = Vec::new();
        loop {
            self.skip_blank_and_comma();
            if self.peek() == Some(b')') {
                self.at += 1;
                return Ok(CqlType::Udt(Arc::new(UserType {
                    keyspace,
                    name,
                    fields,
                    frozen: false,
                })));
            }
            let field = self.hex_name()?;
            self.expect(b':')?;
            fields.push((field, self.parse()?.0));
        }
    }

    fn hex_name(&mut self) -> Result<String, TypeNameError> {
        let hex = self.identifier();
        let bytes =
            decode_hex(hex).ok_or_else(|| self.error("a name in hexadecimal is expected"))?;
        String::from_utf8(bytes).map_err(|_| self.error("a name is not UTF-8"))
    }

    /// A class that this node does not know: kept with its parameters as it stands.
    fn unknown(&mut self, start: usize) -> Result<CqlType, TypeNameError> {
        if self.peek() == Some(b'(') {
            let mut open = 0_usize;
            loop {
                match self.peek() {
                    Some(b'(') => open += 1,
                    Some(b')') => open -= 1,
                    Some(_) => {}
                    None => return Err(self.error("')' expected")),
                }
                self.at += 1;
                if open == 0 {
                    break;
                }
            }
        }
        let name = &self.text[start..self.at];
        let qualified = if self.text[start..].starts_with(PACKAGE)
            || name.split('(').next().is_some_and(|n| n.contains('.'))
        {
            name.to_owned()
        } else {
            format!("{PACKAGE}{name}")
        };
        Ok(CqlType::Custom(qualified.into()))
    }
}

/// Bytes of an even count of hexadecimal digits.
pub(crate) fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
#[path = "java_name_tests.rs"]
mod tests;
