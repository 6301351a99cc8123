//! Types as CQL writes them and as `system_schema.columns` stores them: `map<text, int>`,
//! `frozen<tuple<int, text>>`, `vector<float, 3>`.

use crate::cql_type::{CqlType, UserType};
use crate::java_name::TypeNameError;
use std::fmt;
use std::sync::Arc;

/// How deep types may nest in a text; deeper ones are refused.
const DEPTH_LIMIT: usize = 64;

/// Words that CQL reserves: as names they need quotes.
const RESERVED: [&str; 52] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "update",
];
/// The rest of [`RESERVED`].
const RESERVED_TAIL: [&str; 5] = ["use", "using", "view", "where", "with"];

/// Simple types by their CQL names.
const SIMPLE: [(CqlType, &str); 22] = [
    (CqlType::Ascii, "ascii"),
    (CqlType::BigInt, "bigint"),
    (CqlType::Blob, "blob"),
    (CqlType::Boolean, "boolean"),
    (CqlType::Counter, "counter"),
    (CqlType::Date, "date"),
    (CqlType::Decimal, "decimal"),
    (CqlType::Double, "double"),
    (CqlType::Duration, "duration"),
    (CqlType::Empty, "empty"),
    (CqlType::Float, "float"),
    (CqlType::Inet, "inet"),
    (CqlType::Int, "int"),
    (CqlType::SmallInt, "smallint"),
    (CqlType::Text, "text"),
    (CqlType::Time, "time"),
    (CqlType::Timestamp, "timestamp"),
    (CqlType::TimeUuid, "timeuuid"),
    (CqlType::TinyInt, "tinyint"),
    (CqlType::Uuid, "uuid"),
    (CqlType::VarInt, "varint"),
    (CqlType::Text, "varchar"),
];

/// A name as CQL writes it: in double quotes where it has to be.
pub fn quote_name(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !is_reserved(name);
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Whether CQL reserves the word (in lower case).
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || RESERVED_TAIL.contains(&word)
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let close = |frozen: bool| if frozen { ">>" } else { ">" };
        let open = |frozen: bool| if frozen { "frozen<" } else { "" };
        match self {
            Self::List { element, frozen } => {
                write!(f, "{}list<{element}{}", open(*frozen), close(*frozen))
            }
            Self::Set { element, frozen } => {
                write!(f, "{}set<{element}{}", open(*frozen), close(*frozen))
            }
            Self::Map { key, value, frozen } => {
                write!(f, "{}map<{key}, {value}{}", open(*frozen), close(*frozen))
            }
            Self::Tuple(elements) => {
                f.write_str("frozen<tuple<")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(">>")
            }
            Self::Udt(user_type) if user_type.frozen => {
                write!(f, "frozen<{}>", quote_name(&user_type.name))
            }
            Self::Udt(user_type) => f.write_str(&quote_name(&user_type.name)),
            Self::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>"),
            Self::Custom(class) => write!(f, "'{class}'"),
            simple => f.write_str(
                SIMPLE
                    .iter()
                    .find(|entry| entry.0 == *simple)
                    .map_or("blob", |entry| entry.1),
            ),
        }
    }
}

impl CqlType {
    /// The type that a CQL text stands for. `resolve` finds a user type by its name without quotes.
    /// What a collection, tuple or vector holds is frozen, said or not, as Cassandra does on reading
    /// its schema tables.
    pub fn parse(
        text: &str,
        resolve: &dyn Fn(&str) -> Option<Arc<UserType>>,
    ) -> Result<Self, TypeNameError> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
            resolve,
        };
        let parsed = parser.parse()?;
        parser.skip_blank();
        if parser.at < text.len() {
            return Err(parser.error("text follows the type"));
        }
        Ok(parsed)
    }

    /// The simple type of a CQL name in any case (`varchar` is `text`); `None` for others.
    pub fn from_simple_name(name: &str) -> Option<Self> {
        SIMPLE
            .iter()
            .find(|entry| entry.1.eq_ignore_ascii_case(name))
            .map(|entry| entry.0.clone())
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    resolve: &'a dyn Fn(&str) -> Option<Arc<UserType>>,
}

impl Parser<'_> {
    fn error(&self, reason: impl Into<String>) -> TypeNameError {
        TypeNameError::new(self.text, format!("{} at byte {}", reason.into(), self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), TypeNameError> {
        self.skip_blank();
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.error(format!("'{}' expected", char::from(byte))))
    }

    /// A text between `quote`s, doubled ones standing for one.
    fn quoted(&mut self, quote: char) -> Result<String, TypeNameError> {
        let mut out = String::new();
        let mut chars = self.text[self.at + 1..].char_indices().peekable();
        while let Some((offset, c)) = chars.next() {
            if c != quote {
                out.push(c);
            } else if chars.next_if(|next| next.1 == quote).is_some() {
                out.push(quote);
            } else {
                self.at += offset + 2;
                return Ok(out);
            }
        }
        Err(self.error("a closing quote is missing"))
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            self.at += 1;
        }
        self.text[start..self.at].to_owned()
    }

    fn parse(&mut self) -> Result<CqlType, TypeNameError> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(self.error("types nest too deep"));
        }
        self.skip_blank();
        let parsed = match self.peek() {
            Some(b'\'') => {
                let class = self.quoted('\'')?;
                CqlType::from_java_name(&class)?
            }
            Some(b'"') => {
                let name = self.quoted('"')?;
                self.user_type(&name)?
            }
            _ => {
                let word = self.word().to_ascii_lowercase();
                if word.is_empty() {
                    return Err(self.error("a type is expected"));
                }
                self.named(&word)?
            }
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn named(&mut self, word: &str) -> Result<CqlType, TypeNameError> {
        self.skip_blank();
        if self.peek() != Some(b'<') {
            if self.peek() == Some(b'.') {
                // keyspace.type: types live in their own keyspace, so the keyspace says nothing new.
                self.at += 1;
                let name = if self.peek() == Some(b'"') {
                    self.quoted('"')?
                } else {
                    self.word().to_ascii_lowercase()
                };
                return self.user_type(&name);
            }
            return match CqlType::from_simple_name(word) {
                Some(simple) => Ok(simple),
                None => self.user_type(word),
            };
        }
        self.at += 1;
        let parsed = match word {
            "frozen" => self.parse()?.freeze(),
            "list" => CqlType::List {
                element: Arc::new(self.parse()?.freeze()),
                frozen: false,
            },
            "set" => CqlType::Set {
                element: Arc::new(self.parse()?.freeze()),
                frozen: false,
            },
            "map" => {
                let key = Arc::new(self.parse()?.freeze());
                self.expect(b',')?;
                CqlType::Map {
                    key,
                    value: Arc::new(self.parse()?.freeze()),
                    frozen: false,
                }
            }
            "tuple" => {
                let mut elements = vec![self.parse()?.freeze()];
                self.skip_blank();
                while self.peek() == Some(b',') {
                    self.at += 1;
                    elements.push(self.parse()?.freeze());
                    self.skip_blank();
                }
                CqlType::Tuple(elements.into())
            }
            "vector" => {
                let element = Arc::new(self.parse()?.freeze());
                if *element == CqlType::Empty {
                    return Err(self.error("a vector may not hold empty values"));
                }
                self.expect(b',')?;
                self.skip_blank();
                let dimension = self.word().parse().ok().filter(|d: &u32| *d > 0);
                let dimension = dimension
                    .ok_or_else(|| self.error("a vector's dimension must be a positive number"))?;
                CqlType::Vector { element, dimension }
            }
            _ => return Err(self.error(format!("type {word} takes no parameters"))),
        };
        self.expect(b'>')?;
        Ok(parsed)
    }

    fn user_type(&self, name: &str) -> Result<CqlType, TypeNameError> {
        let found =
            (self.resolve)(name).ok_or_else(|| self.error(format!("Unknown type {name}")))?;
        if !found.frozen {
            return Ok(CqlType::Udt(found));
        }
        Ok(CqlType::Udt(Arc::new(UserType {
            frozen: false,
            ..UserType::clone(&found)
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr() -> Arc<UserType> {
        Arc::new(UserType {
            keyspace: "ks".into(),
            name: "Addr".into(),
            fields: vec![
                ("street".into(), CqlType::Text),
                ("zip".into(), CqlType::Int),
            ],
            frozen: false,
        })
    }

    fn check(text: &str) {
        let parsed = CqlType::parse(text, &|name| (name == "Addr").then(addr)).unwrap();
        assert_eq!(parsed.to_string(), text);
    }

    #[test]
    fn texts_of_the_schema_tables_round_trip() {
        for (_, name) in &SIMPLE[..21] {
            check(name);
        }
        for text in [
            "list<int>",
            "frozen<list<int>>",
            "map<text, int>",
            "frozen<map<text, int>>",
            "list<frozen<map<int, text>>>",
            "frozen<tuple<int, text>>",
            "frozen<\"Addr\">",
            "\"Addr\"",
            "set<frozen<\"Addr\">>",
            "vector<float, 3>",
            "vector<frozen<list<int>>, 2>",
            "'org.apache.cassandra.db.marshal.DynamicCompositeType(a=>org.apache.cassandra.db.marshal.BytesType)'",
        ] {
            check(text);
        }
    }

    #[test]
    fn frozen_is_understood_where_it_must_be() {
        let parsed = CqlType::parse("list<list<int>>", &|_| None).unwrap();
        assert_eq!(parsed.to_string(), "list<frozen<list<int>>>");
        assert_eq!(
            CqlType::parse("tuple<int, VarChar>", &|_| None)
                .unwrap()
                .to_string(),
            "frozen<tuple<int, text>>"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "list",
            "list<",
            "list<>",
            "nosuch",
            "vector<int, 0>",
            "int>",
            "\"Addr",
            "map<int>",
            "int<int>",
        ] {
            assert!(CqlType::parse(text, &|_| None).is_err(), "{text}");
        }
        assert!(CqlType::parse(&"list<".repeat(1000), &|_| None).is_err());
    }

    #[test]
    fn names_are_quoted_where_needed() {
        assert_eq!(quote_name("abc_1"), "abc_1");
        assert_eq!(quote_name("Abc"), "\"Abc\"");
        assert_eq!(quote_name("table"), "\"table\"");
        assert_eq!(quote_name("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_name("1a"), "\"1a\"");
    }
}
