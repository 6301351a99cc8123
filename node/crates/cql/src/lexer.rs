//! Text to tokens. Every token knows where it stands, so that errors can point at it as
//! Cassandra's do.
//!
//! Invariant L1: no text makes the lexer panic, and every token's range lies on character bounds.

use crate::error::CqlError;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Unquoted name or keyword.
    Ident,
    /// Name in double quotes; the text is without them.
    QuotedName,
    /// String in single quotes or `$$`; the text is the string.
    String,
    /// Digits, perhaps with a minus.
    Integer,
    /// Number with a fraction or exponent.
    Float,
    /// `true` or `false`.
    Boolean,
    /// `1h30m` or `P1Y`.
    Duration,
    /// A UUID without quotes.
    Uuid,
    /// `0x…`.
    Hex,
    /// One of the punctuation marks; the text is the mark.
    Punct,
    /// End of the text.
    Eof,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Its text without quotes.
    pub text: String,
    /// Byte offset of its first character.
    pub start: usize,
    /// Byte offset behind its last character.
    pub end: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 0.
    pub column: usize,
    /// Index among all tokens, white space included.
    pub raw_index: usize,
}

/// Tokens without white space and comments, and where each raw token starts.
#[derive(Debug)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    pub(crate) raw_starts: Vec<usize>,
}

const TWO_CHARACTER_MARKS: [&str; 6] = ["<=", ">=", "!=", "+=", "-=", ".."];
const MARKS: &str = "()[]{},;:.=<>+-*/%?";

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    line_start: usize,
    tokens: Vec<Token>,
    raw_starts: Vec<usize>,
}

/// Cuts a text into tokens; the last is [`TokenKind::Eof`].
pub(crate) fn lex(text: &str) -> Result<Lexed, CqlError> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
        line_start: 0,
        tokens: Vec::new(),
        raw_starts: Vec::new(),
    };
    while lexer.at < text.len() {
        lexer.step()?;
    }
    let eof = text.len();
    let (line, column) = lexer.place(eof);
    let raw_index = lexer.raw_starts.len();
    lexer.tokens.push(Token {
        kind: TokenKind::Eof,
        text: String::new(),
        start: eof,
        end: eof,
        line,
        column,
        raw_index,
    });
    Ok(Lexed {
        tokens: lexer.tokens,
        raw_starts: lexer.raw_starts,
    })
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn place(&self, at: usize) -> (usize, usize) {
        (self.line, self.text[self.line_start..at].chars().count())
    }

    fn error(&self, at: usize, expecting: &str) -> CqlError {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |tail| tail.chars().count());
        let found = self.text[at..]
            .chars()
            .next()
            .map_or("<EOF>".to_owned(), |c| c.to_string());
        CqlError::Syntax(format!(
            "line {line}:{column} mismatched character '{found}' expecting {expecting}"
        ))
    }

    fn push(&mut self, kind: TokenKind, text: String, end: usize) {
        let (line, column) = self.place(self.at);
        let raw_index = self.raw_starts.len();
        self.tokens.push(Token {
            kind,
            text,
            start: self.at,
            end,
            line,
            column,
            raw_index,
        });
        self.advance(end);
    }

    fn advance(&mut self, end: usize) {
        self.raw_starts.push(self.at);
        if let Some(newline) = self.text[self.at..end].rfind('\n') {
            self.line += self.text[self.at..end].matches('\n').count();
            self.line_start = self.at + newline + 1;
        }
        self.at = end;
    }

    fn step(&mut self) -> Result<(), CqlError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(());
        };
        if matches!(first, ' ' | '\t' | '\n' | '\r') {
            let length = rest
                .find(|c| !matches!(c, ' ' | '\t' | '\n' | '\r'))
                .unwrap_or(rest.len());
            self.advance(self.at + length);
            return Ok(());
        }
        if rest.starts_with("--") || rest.starts_with("//") {
            let Some(length) = rest.find(['\n', '\r']) else {
                return Err(self.error(self.text.len(), "set null"));
            };
            self.advance(self.at + length + 1);
            return Ok(());
        }
        if rest.starts_with("/*") {
            let length = rest
                .find("*/")
                .ok_or_else(|| self.error(self.text.len(), "'*'"))?;
            self.advance(self.at + length + 2);
            return Ok(());
        }
        match first {
            '\'' | '"' => self.quoted(first),
            '$' => self.dollar_quoted(),
            _ => self.word_number_or_mark(first),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<(), CqlError> {
        let mut content = String::new();
        let mut characters = self.rest().char_indices().skip(1).peekable();
        let mut end = None;
        while let Some((at, c)) = characters.next() {
            if c == quote {
                if characters.peek().is_some_and(|next| next.1 == quote) {
                    characters.next();
                } else {
                    end = Some(self.at + at + 1);
                    break;
                }
            }
            content.push(c);
        }
        let expecting = if quote == '"' { "'\"'" } else { "'''" };
        let end = end.ok_or_else(|| self.error(self.text.len(), expecting))?;
        let kind = if quote == '"' {
            TokenKind::QuotedName
        } else {
            TokenKind::String
        };
        self.push(kind, content, end);
        Ok(())
    }

    fn dollar_quoted(&mut self) -> Result<(), CqlError> {
        if !self.rest().starts_with("$$") {
            return Err(self.error((self.at + 1).min(self.text.len()), "'$'"));
        }
        let content = &self.rest()[2..];
        let length = content
            .find("$$")
            .ok_or_else(|| self.error(self.text.len(), "'$'"))?;
        let (content, end) = (content[..length].to_owned(), self.at + length + 4);
        self.push(TokenKind::String, content, end);
        Ok(())
    }

    fn word_number_or_mark(&mut self, first: char) -> Result<(), CqlError> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        if let Some(length) = uuid_length(bytes) {
            self.take(TokenKind::Uuid, length);
            return Ok(());
        }
        let second_is_digit = bytes.get(1).is_some_and(u8::is_ascii_digit);
        if first == '0' && bytes.get(1).is_some_and(|c| matches!(c, b'x' | b'X')) {
            let length = 2 + bytes[2..]
                .iter()
                .take_while(|c| c.is_ascii_hexdigit())
                .count();
            self.take(TokenKind::Hex, length);
            return Ok(());
        }
        if first.is_ascii_digit() || (first == '-' && second_is_digit) {
            let (kind, length) = number(bytes);
            self.take(kind, length);
            return Ok(());
        }
        let sign = usize::from(first == '-');
        let alternative = alternative_duration_length(&bytes[sign..]);
        if alternative > 0 {
            self.take(TokenKind::Duration, sign + alternative);
            return Ok(());
        }
        if first == '-' && is_iso_duration(&rest[1..rest.len() - trailing(&rest[1..])]) {
            let length = rest.len() - trailing(&rest[1..]);
            self.take(TokenKind::Duration, length);
            return Ok(());
        }
        if first.is_ascii_alphabetic() {
            let length = rest.len() - trailing(rest);
            let word = &rest[..length];
            let kind = if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") {
                TokenKind::Boolean
            } else if is_iso_duration(word) {
                TokenKind::Duration
            } else {
                TokenKind::Ident
            };
            self.take(kind, length);
            return Ok(());
        }
        if TWO_CHARACTER_MARKS
            .iter()
            .any(|mark| rest.starts_with(mark))
        {
            self.take(TokenKind::Punct, 2);
            return Ok(());
        }
        if MARKS.contains(first) {
            self.take(TokenKind::Punct, 1);
            return Ok(());
        }
        let (line, column) = self.place(self.at);
        Err(CqlError::Syntax(format!(
            "line {line}:{column} no viable alternative at character '{first}'"
        )))
    }

    fn take(&mut self, kind: TokenKind, length: usize) {
        let text = self.rest()[..length].to_owned();
        self.push(kind, text, self.at + length);
    }
}

/// How many bytes of `text` stand behind its first word.
fn trailing(text: &str) -> usize {
    text.len()
        - text
            .bytes()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == b'_')
            .count()
}

fn uuid_length(bytes: &[u8]) -> Option<usize> {
    let candidate = bytes.get(..36)?;
    let fits = candidate.iter().enumerate().all(|(at, c)| match at {
        8 | 13 | 18 | 23 => *c == b'-',
        _ => c.is_ascii_hexdigit(),
    });
    (fits
        && !bytes
            .get(36)
            .is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_'))
    .then_some(36)
}

/// Length of the duration unit at the start of `bytes`, 0 when there is none.
fn unit_length(bytes: &[u8]) -> usize {
    let lower: Vec<u8> = bytes.iter().take(3).map(u8::to_ascii_lowercase).collect();
    if lower.starts_with("µs".as_bytes()) {
        return 3;
    }
    for (unit, length) in [
        ("mo", 2),
        ("ms", 2),
        ("us", 2),
        ("ns", 2),
        ("y", 1),
        ("w", 1),
        ("d", 1),
        ("h", 1),
        ("m", 1),
        ("s", 1),
    ] {
        if lower.starts_with(unit.as_bytes()) {
            return length;
        }
    }
    0
}

fn number(bytes: &[u8]) -> (TokenKind, usize) {
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let sign = usize::from(bytes[0] == b'-');
    let integer = sign + digits(sign);
    let mut duration = integer;
    let mut in_duration = false;
    loop {
        let unit = unit_length(&bytes[duration..]);
        if unit == 0 {
            break;
        }
        in_duration = true;
        duration += unit;
        let count = digits(duration);
        if count == 0 || unit_length(&bytes[duration + count..]) == 0 {
            break;
        }
        duration += count;
    }
    if in_duration
        && !bytes
            .get(duration)
            .is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_')
    {
        return (TokenKind::Duration, duration);
    }
    let mut end = integer;
    let mut kind = TokenKind::Integer;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1) != Some(&b'.') {
        kind = TokenKind::Float;
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let from = (end + 1 + sign).min(bytes.len());
        let exponent = digits(from);
        if exponent > 0 {
            return (TokenKind::Float, from + exponent);
        }
    }
    (kind, end)
}

/// Length of `P0001-02-03T04:05:06` (the alternative form of ISO 8601) at the start, or 0.
fn alternative_duration_length(bytes: &[u8]) -> usize {
    const FORM: &[u8] = b"P0000-00-00T00:00:00";
    let Some(start) = bytes.get(..FORM.len()) else {
        return 0;
    };
    let fits = start.iter().zip(FORM).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        other => byte.eq_ignore_ascii_case(other),
    });
    if fits { FORM.len() } else { 0 }
}

/// `P1Y2M3DT4H5M6S` and `P3W`.
fn is_iso_duration(word: &str) -> bool {
    let Some(rest) = word.strip_prefix(['P', 'p']) else {
        return false;
    };
    let mut digits = 0;
    let mut parts = 0;
    for c in rest.chars() {
        match c {
            '0'..='9' => digits += 1,
            'T' | 't' if digits == 0 => {}
            'Y' | 'y' | 'M' | 'm' | 'D' | 'd' | 'W' | 'w' | 'H' | 'h' | 'S' | 's' if digits > 0 => {
                digits = 0;
                parts += 1;
            }
            _ => return false,
        }
    }
    parts > 0 && digits == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &[(TokenKind, &str)]) {
        let lexed = lex(input).unwrap();
        let found: Vec<_> = lexed
            .tokens
            .iter()
            .map(|token| (token.kind, token.text.as_str()))
            .collect();
        assert_eq!(found[..found.len() - 1], *expected, "{input}");
    }

    #[test]
    fn tokens() {
        use TokenKind::*;
        check(
            "a \"B\"\"c\" 'it''s' $$x'y$$",
            &[
                (Ident, "a"),
                (QuotedName, "B\"c"),
                (String, "it's"),
                (String, "x'y"),
            ],
        );
        check(
            "-1 2.5 1e10 0xAb 1h30m P1Y2M 12mo3ns",
            &[
                (Integer, "-1"),
                (Float, "2.5"),
                (Float, "1e10"),
                (Hex, "0xAb"),
                (Duration, "1h30m"),
                (Duration, "P1Y2M"),
                (Duration, "12mo3ns"),
            ],
        );
        check(
            "550e8400-e29b-41d4-a716-446655440000",
            &[(Uuid, "550e8400-e29b-41d4-a716-446655440000")],
        );
        check(
            "a<=?;-- c\n:b/* x */true",
            &[
                (Ident, "a"),
                (Punct, "<="),
                (Punct, "?"),
                (Punct, ";"),
                (Punct, ":"),
                (Ident, "b"),
                (Boolean, "true"),
            ],
        );
        check(
            "m[1..2] 3.",
            &[
                (Ident, "m"),
                (Punct, "["),
                (Integer, "1"),
                (Punct, ".."),
                (Integer, "2"),
                (Punct, "]"),
                (Float, "3."),
            ],
        );
    }
}
