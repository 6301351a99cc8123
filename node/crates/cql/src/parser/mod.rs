//! The recursive-descent parser: text to [`Parsed`]. Errors have the shape of Cassandra's.
//!
//! Invariant P1: nesting is bounded by [`DEPTH_LIMIT`], so no text overflows the stack.

mod ddl;
mod describe;
mod dml;
mod select;
mod term;

use crate::ast::{Parsed, QualifiedName, RawType, Statement};
use crate::error::CqlError;
use crate::lexer::{Lexed, Token, TokenKind, lex};
use helenus_types::CqlType;

/// How deep terms, selectors and types may nest.
const DEPTH_LIMIT: usize = 100;

/// How many tokens (white space counts) Cassandra shows before the wrong one.
const SNIPPET_TOKENS: usize = 10;

/// Words that are never names unless quoted.
const RESERVED: &str = " ADD ALLOW ALTER AND APPLY ASC AUTHORIZE BATCH BEGIN BY COLUMNFAMILY CREATE DELETE DESC DESCRIBE DROP ENTRIES EXECUTE FROM FULL GRANT IF IN INDEX INFINITY INSERT INTO IS KEYSPACE LIMIT MATERIALIZED MODIFY NAN NORECURSIVE NOT NULL OF ON OR ORDER PRIMARY RENAME REVOKE SCHEMA SELECT SET TABLE TO TOKEN TRUNCATE UNLOGGED UPDATE USE USING VIEW WHERE WITH ";

/// Whether a name must be quoted because it is a reserved word.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&format!(" {} ", word.to_ascii_uppercase()))
}

pub(crate) type Result<T> = std::result::Result<T, CqlError>;

pub(crate) struct Parser<'a> {
    text: &'a str,
    lexed: Lexed,
    at: usize,
    markers: Vec<Option<String>>,
    depth: usize,
}

/// Parses one statement.
pub fn parse(text: &str) -> Result<Parsed> {
    let lexed = lex(text)?;
    let mut parser = Parser {
        text,
        lexed,
        at: 0,
        markers: Vec::new(),
        depth: 0,
    };
    let statement = parser.statement()?;
    while parser.eat(";") {}
    if parser.peek().kind != TokenKind::Eof {
        return Err(parser.mismatched("EOF"));
    }
    Ok(Parsed {
        statement,
        markers: parser.markers,
    })
}

/// Parses a type as CQL writes it, such as `frozen<map<text, int>>`.
pub fn parse_type(text: &str) -> Result<RawType> {
    let lexed = lex(text)?;
    let mut parser = Parser {
        text,
        lexed,
        at: 0,
        markers: Vec::new(),
        depth: 0,
    };
    let parsed = parser.comparator_type()?;
    if parser.peek().kind == TokenKind::Eof {
        Ok(parsed)
    } else {
        Err(parser.mismatched("EOF"))
    }
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        let last = self.lexed.tokens.len() - 1;
        &self.lexed.tokens[(self.at + ahead).min(last)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if token.kind != TokenKind::Eof {
            self.at += 1;
        }
        token
    }

    fn is_mark_at(&self, ahead: usize, mark: &str) -> bool {
        let token = self.peek_at(ahead);
        token.kind == TokenKind::Punct && token.text == mark
    }

    fn is(&self, mark: &str) -> bool {
        self.is_mark_at(0, mark)
    }

    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        let token = self.peek_at(ahead);
        token.kind == TokenKind::Ident && token.text.eq_ignore_ascii_case(word)
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        if found {
            self.at += 1;
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.at += 1;
        }
        found
    }

    fn eat_words(&mut self, words: &[&str]) -> bool {
        let found = words
            .iter()
            .enumerate()
            .all(|(ahead, word)| self.is_word_at(ahead, word));
        if found {
            self.at += words.len();
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        if self.eat(mark) {
            Ok(())
        } else {
            Err(self.mismatched(&format!("'{mark}'")))
        }
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            Err(self.mismatched(&format!("K_{word}")))
        }
    }

    fn place(token: &Token) -> String {
        if token.kind == TokenKind::Eof {
            "line 0:-1".into()
        } else {
            format!("line {}:{}", token.line, token.column)
        }
    }

    fn shown(token: &Token) -> &str {
        if token.kind == TokenKind::Eof {
            "<EOF>"
        } else {
            &token.text
        }
    }

    /// Cassandra's excerpt of the text around a wrong token.
    fn snippet(&self, token: &Token) -> String {
        if token.kind == TokenKind::Eof {
            return String::new();
        }
        let first = token.raw_index.saturating_sub(SNIPPET_TOKENS);
        let from = self.lexed.raw_starts.get(first).copied().unwrap_or(0);
        let lead = if first > 0 { "..." } else { "" };
        let length: usize = self.text[token.start..]
            .chars()
            .take(token.text.chars().count())
            .map(char::len_utf8)
            .sum();
        let is_last = self.text[token.start + length..].trim().is_empty();
        let tail = if is_last { "" } else { "..." };
        let wrong = &self.text[token.start..token.start + length];
        format!(" ({lead}{}[{wrong}]{tail})", &self.text[from..token.start])
    }

    /// The error of a token that starts nothing known here.
    fn no_viable(&self) -> CqlError {
        let token = self.peek();
        let (place, shown) = (Self::place(token), Self::shown(token));
        CqlError::Syntax(format!(
            "{place} no viable alternative at input '{shown}'{}",
            self.snippet(token)
        ))
    }

    /// The error of a token where another one must stand.
    fn mismatched(&self, expecting: &str) -> CqlError {
        let token = self.peek();
        let (place, shown) = (Self::place(token), Self::shown(token));
        CqlError::Syntax(format!(
            "{place} mismatched input '{shown}' expecting {expecting}{}",
            self.snippet(token)
        ))
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_LIMIT {
            return Err(CqlError::Syntax(format!(
                "{} the statement nests deeper than {DEPTH_LIMIT} levels",
                Self::place(self.peek())
            )));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Items separated by commas.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn is_name_at(&self, ahead: usize) -> bool {
        let token = self.peek_at(ahead);
        match token.kind {
            TokenKind::Ident => !is_reserved(&token.text),
            TokenKind::QuotedName => true,
            // a duration-like name such as p1y is a name too
            _ => false,
        }
    }

    /// A name: lower-cased unless quoted.
    fn name(&mut self) -> Result<String> {
        if !self.is_name_at(0) {
            return Err(self.no_viable());
        }
        let token = self.next();
        Ok(if token.kind == TokenKind::Ident {
            token.text.to_ascii_lowercase()
        } else {
            token.text
        })
    }

    fn qualified_name(&mut self) -> Result<QualifiedName> {
        let first = self.name()?;
        if self.eat(".") {
            return Ok(QualifiedName {
                keyspace: Some(first),
                name: self.name()?,
            });
        }
        Ok(QualifiedName {
            keyspace: None,
            name: first,
        })
    }

    fn if_not_exists(&mut self) -> Result<bool> {
        if !self.eat_word("IF") {
            return Ok(false);
        }
        self.expect_word("NOT")?;
        self.expect_word("EXISTS")?;
        Ok(true)
    }

    fn if_exists(&mut self) -> Result<bool> {
        if !self.eat_word("IF") {
            return Ok(false);
        }
        self.expect_word("EXISTS")?;
        Ok(true)
    }

    fn integer(&mut self) -> Result<String> {
        if self.peek().kind == TokenKind::Integer {
            Ok(self.next().text)
        } else {
            Err(self.mismatched("INTEGER"))
        }
    }

    fn comparator_type(&mut self) -> Result<RawType> {
        self.deeper(Self::comparator_type_inner)
    }

    fn comparator_type_inner(&mut self) -> Result<RawType> {
        let token = self.peek().clone();
        if token.kind == TokenKind::String {
            self.next();
            return Ok(RawType::Custom(token.text));
        }
        let opens = self.is_mark_at(1, "<");
        if token.kind == TokenKind::Ident && opens {
            let word = token.text.to_ascii_lowercase();
            if matches!(
                word.as_str(),
                "list" | "set" | "map" | "tuple" | "vector" | "frozen"
            ) {
                self.at += 2;
                return self.parameterized_type(&word);
            }
        }
        if token.kind == TokenKind::Ident
            && !self.is_mark_at(1, ".")
            && let Some(native) = native_type(&token.text)
        {
            self.next();
            return Ok(RawType::Native(native));
        }
        Ok(RawType::User(self.qualified_name()?))
    }

    fn parameterized_type(&mut self, word: &str) -> Result<RawType> {
        let first = Box::new(self.comparator_type()?);
        let result = match word {
            "list" => RawType::List(first),
            "set" => RawType::Set(first),
            "frozen" => RawType::Frozen(first),
            "map" => {
                self.expect(",")?;
                RawType::Map(first, Box::new(self.comparator_type()?))
            }
            "vector" => {
                self.expect(",")?;
                let text = self.integer()?;
                let dimension = text.parse().ok().filter(|d| *d > 0);
                let dimension = dimension.ok_or_else(|| {
                    CqlError::Invalid(format!(
                        "vectors may only have positive dimensions; given {text}"
                    ))
                })?;
                RawType::Vector(first, dimension)
            }
            _ => {
                let mut elements = vec![*first];
                while self.eat(",") {
                    elements.push(self.comparator_type()?);
                }
                RawType::Tuple(elements)
            }
        };
        self.expect(">")?;
        Ok(result)
    }

    fn statement(&mut self) -> Result<Statement> {
        let word = self.peek().text.to_ascii_uppercase();
        if self.peek().kind != TokenKind::Ident {
            return Err(self.no_viable());
        }
        match word.as_str() {
            "SELECT" => self.select(),
            "INSERT" => self.insert(),
            "UPDATE" => self.update(),
            "DELETE" => self.delete(),
            "BEGIN" => self.batch(),
            "TRUNCATE" => {
                self.at += 1;
                if !self.eat_word("TABLE") {
                    self.eat_word("COLUMNFAMILY");
                }
                Ok(Statement::Truncate(self.qualified_name()?))
            }
            "USE" => {
                self.at += 1;
                Ok(Statement::Use(self.name()?))
            }
            "CREATE" => self.create(),
            "ALTER" => self.alter(),
            "DROP" => self.drop(),
            "DESCRIBE" | "DESC" => self.describe(),
            "GRANT" => self.unsupported("GRANT"),
            "REVOKE" => self.unsupported("REVOKE"),
            "LIST" => self.list_statement(),
            "ADD" if self.is_word_at(1, "IDENTITY") => self.unsupported("ADD IDENTITY"),
            _ => Err(self.no_viable()),
        }
    }

    fn list_statement(&mut self) -> Result<Statement> {
        for (word, feature) in [
            ("ROLES", "LIST ROLES"),
            ("USERS", "LIST USERS"),
            ("SUPERUSERS", "LIST SUPERUSERS"),
        ] {
            if self.is_word_at(1, word) {
                return self.unsupported(feature);
            }
        }
        self.unsupported("LIST PERMISSIONS")
    }

    /// Takes the rest of the text as a statement that is understood but not done.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the form of all parts of the parser"
    )]
    fn unsupported(&mut self, feature: &'static str) -> Result<Statement> {
        while !matches!(self.peek().kind, TokenKind::Eof) {
            self.at += 1;
        }
        Ok(Statement::Unsupported(feature))
    }
}

/// The native type of this name.
pub(crate) fn native_type(word: &str) -> Option<CqlType> {
    Some(match word.to_ascii_lowercase().as_str() {
        "ascii" => CqlType::Ascii,
        "bigint" => CqlType::BigInt,
        "blob" => CqlType::Blob,
        "boolean" => CqlType::Boolean,
        "counter" => CqlType::Counter,
        "date" => CqlType::Date,
        "decimal" => CqlType::Decimal,
        "double" => CqlType::Double,
        "duration" => CqlType::Duration,
        "float" => CqlType::Float,
        "inet" => CqlType::Inet,
        "int" => CqlType::Int,
        "smallint" => CqlType::SmallInt,
        "text" | "varchar" => CqlType::Text,
        "time" => CqlType::Time,
        "timestamp" => CqlType::Timestamp,
        "timeuuid" => CqlType::TimeUuid,
        "tinyint" => CqlType::TinyInt,
        "uuid" => CqlType::Uuid,
        "varint" => CqlType::VarInt,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
