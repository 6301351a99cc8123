//! A JSON reader that keeps numbers as their digits and members in their order.

use crate::value::ValueError;
use std::fmt;

/// How deep arrays and objects may nest.
const DEPTH_LIMIT: usize = 128;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; a name may occur twice, the last one counts.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a whole text.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
        };
        let value = parser.value()?;
        parser.skip_blank();
        if parser.at < text.len() {
            Err(parser.error("text follows the value"))
        } else {
            Ok(value)
        }
    }

    /// The class by which Cassandra's messages name it.
    pub fn java_class(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "Boolean",
            Self::Number(digits) if digits.contains(['.', 'e', 'E']) => "Double",
            Self::Number(digits) if digits.parse::<i32>().is_ok() => "Integer",
            Self::Number(digits) if digits.parse::<i64>().is_ok() => "Long",
            Self::Number(_) => "BigInteger",
            Self::String(_) => "String",
            Self::Array(_) => "ArrayList",
            Self::Object(_) => "LinkedHashMap",
        }
    }
}

/// As Java prints the parsed objects in messages: strings without quotes, `{a=1}`, `[1, 2]`.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Number(text) | Self::String(text) => f.write_str(text),
            Self::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (index, (name, member)) in members.iter().enumerate() {
                    write!(f, "{}{name}={member}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, reason: &str) -> ValueError {
        ValueError::new(format!(
            "Error decoding JSON string: {reason} at byte {}",
            self.at
        ))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_blank();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Json, ValueError> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(self.error("values nest too deep"));
        }
        self.skip_blank();
        let value = match self.peek() {
            Some(b'"') => Json::String(self.string()?),
            Some(b'[') => self.array()?,
            Some(b'{') => self.object()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn word(&mut self) -> Result<Json, ValueError> {
        for (word, value) in [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
        ] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("a value is expected"))
    }

    fn digits(&mut self) -> Result<(), ValueError> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.error("a digit is expected"))
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Result<Json, ValueError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let first = self.at;
        self.digits()?;
        if self.at > first + 1 && self.text.as_bytes()[first] == b'0' {
            return Err(self.error("a number may not begin with 0"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(Json::Number(self.text[start..self.at].to_owned()))
    }

    fn array(&mut self) -> Result<Json, ValueError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err(self.error("',' or ']' is expected"));
            }
        }
    }

    fn object(&mut self) -> Result<Json, ValueError> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_blank();
            if self.peek() != Some(b'"') {
                return Err(self.error("a name in quotes is expected"));
            }
            let name = self.string()?;
            if !self.take(b':') {
                return Err(self.error("':' is expected"));
            }
            members.push((name, self.value()?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.error("',' or '}' is expected"));
            }
        }
    }

    fn string(&mut self) -> Result<String, ValueError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let c = self.text[self.at..]
                .chars()
                .next()
                .ok_or_else(|| self.error("a closing quote is missing"))?;
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(out),
                '\\' => out.push(self.escaped()?),
                c if u32::from(c) < 0x20 => {
                    return Err(self.error("a control character must be escaped"));
                }
                c => out.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, ValueError> {
        let byte = self
            .peek()
            .ok_or_else(|| self.error("an escape is cut short"))?;
        self.at += usize::from(byte.is_ascii());
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let unit = self.hex4()?;
                let code = if (0xd800..0xdc00).contains(&unit)
                    && self.text[self.at..].starts_with("\\u")
                {
                    self.at += 2;
                    let low = self.hex4()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(self.error("a surrogate without its half"));
                    }
                    0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    unit
                };
                char::from_u32(code).ok_or_else(|| self.error("a surrogate without its half"))?
            }
            _ => return Err(self.error("an unknown escape")),
        })
    }

    fn hex4(&mut self) -> Result<u32, ValueError> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let value = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        let value = value.ok_or_else(|| self.error("four hexadecimal digits are expected"))?;
        self.at += 4;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_refuses() {
        let json =
            Json::parse(r#" {"a": [1, -2.5e3, true, null, "x\u00e9\ud83d\ude00\n"], "b": {}} "#)
                .unwrap();
        assert_eq!(
            json.to_string(),
            "{a=[1, -2.5e3, true, null, xé😀\n], b={}}"
        );
        for text in [
            "",
            "[",
            "[1,",
            "{1:2}",
            "\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "01",
            "nul",
            "1 2",
            "\"\\é\"",
            "{\"a\"}",
        ] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        assert!(Json::parse(&"[".repeat(10_000)).is_err());
    }
}
