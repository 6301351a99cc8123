//! Values, functions and selectors: one grammar, in which columns appear only in SELECT clauses.

use super::{Parser, Result, is_reserved, native_type};
use crate::ast::{Arithmetic, CellFact, LiteralKind, Marker, QualifiedName, RawType, Term};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// A value expression without columns.
    pub(crate) fn term(&mut self) -> Result<Term> {
        self.deeper(|parser| parser.addition(false))
    }

    /// An expression of a SELECT clause.
    pub(crate) fn selector(&mut self) -> Result<Term> {
        self.deeper(|parser| parser.addition(true))
    }

    fn expression(&mut self, columns: bool) -> Result<Term> {
        if columns {
            self.selector()
        } else {
            self.term()
        }
    }

    fn addition(&mut self, columns: bool) -> Result<Term> {
        let mut left = self.multiplication(columns)?;
        loop {
            let operator = if self.is("+") && !self.is_column_operand(columns) {
                Arithmetic::Add
            } else if self.is("-") {
                Arithmetic::Subtract
            } else {
                return Ok(left);
            };
            self.at += 1;
            let right = self.multiplication(columns)?;
            left = Term::Arithmetic(operator, Box::new(left), Box::new(right));
        }
    }

    /// `value + column`: in UPDATE that is a prepend, not an addition.
    fn is_column_operand(&self, columns: bool) -> bool {
        !columns && self.is_name_at(1) && !self.is_mark_at(2, "(") && !self.is_mark_at(2, ".")
    }

    fn multiplication(&mut self, columns: bool) -> Result<Term> {
        let mut left = self.group(columns)?;
        loop {
            let operator = match self.peek() {
                token if token.kind != TokenKind::Punct => return Ok(left),
                token => match token.text.as_str() {
                    "*" => Arithmetic::Multiply,
                    "/" => Arithmetic::Divide,
                    "%" => Arithmetic::Modulo,
                    _ => return Ok(left),
                },
            };
            self.at += 1;
            let right = self.group(columns)?;
            left = Term::Arithmetic(operator, Box::new(left), Box::new(right));
        }
    }

    fn group(&mut self, columns: bool) -> Result<Term> {
        if self.eat("-") {
            if self.is_word("NAN") || self.is_word("INFINITY") {
                let token = self.next();
                return Ok(Term::Literal(
                    LiteralKind::Float,
                    format!("-{}", token.text),
                ));
            }
            return self.deeper(|parser| Ok(Term::Negate(Box::new(parser.group(columns)?))));
        }
        let mut value = self.simple(columns)?;
        loop {
            if !columns {
                break;
            } else if self.eat(".") {
                value = Term::Field(Box::new(value), self.name()?);
            } else if self.eat("[") {
                value = self.subscript(value)?;
            } else {
                break;
            }
        }
        Ok(value)
    }

    fn subscript(&mut self, value: Term) -> Result<Term> {
        let from = if self.is("..") {
            None
        } else {
            Some(Box::new(self.term()?))
        };
        if self.eat("..") {
            let to = if self.is("]") {
                None
            } else {
                Some(Box::new(self.term()?))
            };
            self.expect("]")?;
            return Ok(Term::Range(Box::new(value), from, to));
        }
        self.expect("]")?;
        Ok(match from {
            Some(key) => Term::Element(Box::new(value), key),
            None => value,
        })
    }

    fn simple(&mut self, columns: bool) -> Result<Term> {
        let token = self.peek().clone();
        let literal = |kind| Term::Literal(kind, token.text.clone());
        let constant = match token.kind {
            TokenKind::String => literal(LiteralKind::String),
            TokenKind::Integer => literal(LiteralKind::Integer),
            TokenKind::Float => literal(LiteralKind::Float),
            TokenKind::Boolean => literal(LiteralKind::Boolean),
            TokenKind::Duration => literal(LiteralKind::Duration),
            TokenKind::Uuid => literal(LiteralKind::Uuid),
            TokenKind::Hex => literal(LiteralKind::Hex),
            TokenKind::Punct => return self.bracketed(columns),
            TokenKind::Ident | TokenKind::QuotedName => return self.word(columns),
            TokenKind::Eof => return Err(self.no_viable()),
        };
        self.next();
        Ok(constant)
    }

    /// `?` or `:name`.
    pub(crate) fn marker(&mut self) -> Result<Marker> {
        let name = if self.eat("?") {
            None
        } else {
            self.expect(":")?;
            Some(self.name()?)
        };
        self.markers.push(name.clone());
        Ok(Marker {
            index: self.markers.len() - 1,
            name,
        })
    }

    pub(crate) fn is_marker(&self) -> bool {
        self.is("?") || self.is(":")
    }

    fn bracketed(&mut self, columns: bool) -> Result<Term> {
        if self.is_marker() {
            return Ok(Term::Marker(self.marker()?));
        }
        if self.eat("[") {
            let items = if self.is("]") {
                Vec::new()
            } else {
                self.list(|parser| parser.expression(columns))?
            };
            self.expect("]")?;
            return Ok(Term::List(items));
        }
        if self.eat("{") {
            let value = self.braces(columns)?;
            self.expect("}")?;
            return Ok(value);
        }
        if self.is("(") {
            return self.parentheses(columns);
        }
        Err(self.no_viable())
    }

    fn braces(&mut self, columns: bool) -> Result<Term> {
        if self.is("}") {
            return Ok(Term::Map(Vec::new()));
        }
        if self.is_name_at(0) && self.is_mark_at(1, ":") {
            let fields = self.list(|parser| {
                let field = parser.name()?;
                parser.expect(":")?;
                Ok((field, parser.expression(columns)?))
            })?;
            return Ok(Term::UserType(fields));
        }
        let first = self.expression(columns)?;
        if self.eat(":") {
            let mut entries = vec![(first, self.expression(columns)?)];
            while self.eat(",") {
                let key = self.expression(columns)?;
                self.expect(":")?;
                entries.push((key, self.expression(columns)?));
            }
            return Ok(Term::Map(entries));
        }
        let mut items = vec![first];
        while self.eat(",") {
            items.push(self.expression(columns)?);
        }
        Ok(Term::Set(items))
    }

    fn parentheses(&mut self, columns: bool) -> Result<Term> {
        if let Some(hint) = self.type_hint() {
            let value = self.deeper(|parser| parser.simple(columns))?;
            return Ok(Term::Hint(hint, Box::new(value)));
        }
        self.expect("(")?;
        let mut items = self.list(|parser| parser.expression(columns))?;
        self.expect(")")?;
        if columns
            && items.len() == 1
            && let Some(only) = items.pop()
        {
            return Ok(only);
        }
        Ok(Term::Tuple(items))
    }

    /// `(type)` before a value; moves on only when it is one.
    fn type_hint(&mut self) -> Option<RawType> {
        let looks_so = self.peek_at(1).kind == TokenKind::Ident
            && (self.is_mark_at(2, ")") && native_type(&self.peek_at(1).text).is_some()
                || self.is_mark_at(2, "<"));
        if !looks_so {
            return None;
        }
        let start = self.at;
        self.at += 1;
        let hint = self.comparator_type().ok();
        if hint.is_some()
            && self.eat(")")
            && !self.is(")")
            && !self.is(",")
            && self.peek().kind != TokenKind::Eof
        {
            return hint;
        }
        self.at = start;
        None
    }

    fn word(&mut self, columns: bool) -> Result<Term> {
        let calls = self.is_mark_at(1, "(");
        if self.peek().kind == TokenKind::Ident {
            let word = self.peek().text.to_ascii_uppercase();
            match word.as_str() {
                "NULL" => {
                    self.next();
                    return Ok(Term::Null);
                }
                "NAN" | "INFINITY" => {
                    return Ok(Term::Literal(LiteralKind::Float, self.next().text));
                }
                "CAST" if calls => return self.cast(columns),
                "COUNT" if calls && self.is_mark_at(2, "*") => {
                    self.at += 3;
                    self.expect(")")?;
                    return Ok(Term::CountStar);
                }
                "WRITETIME" if calls && columns => return self.cell_fact(CellFact::WriteTime),
                "MAXWRITETIME" if calls && columns => {
                    return self.cell_fact(CellFact::MaxWriteTime);
                }
                "TTL" if calls && columns => return self.cell_fact(CellFact::Ttl),
                "TOKEN" if calls => {}
                word if is_reserved(word) => return Err(self.no_viable()),
                _ => {}
            }
        }
        if calls || (self.is_mark_at(1, ".") && self.is_mark_at(3, "(")) {
            return self.function(columns);
        }
        if columns {
            return Ok(Term::Column(self.name()?));
        }
        Err(self.no_viable())
    }

    fn function(&mut self, columns: bool) -> Result<Term> {
        let first = self.function_name()?;
        let name = if self.eat(".") {
            QualifiedName {
                keyspace: Some(first),
                name: self.function_name()?,
            }
        } else {
            QualifiedName {
                keyspace: None,
                name: first,
            }
        };
        self.expect("(")?;
        let arguments = if self.is(")") {
            Vec::new()
        } else {
            self.list(|parser| parser.expression(columns))?
        };
        self.expect(")")?;
        Ok(Term::Function(name, arguments))
    }

    fn function_name(&mut self) -> Result<String> {
        if self.eat_word("TOKEN") {
            return Ok("token".into());
        }
        self.name()
    }

    fn cast(&mut self, columns: bool) -> Result<Term> {
        self.at += 2;
        let value = self.expression(columns)?;
        self.expect_word("AS")?;
        let target = native_type(&self.peek().text).ok_or_else(|| self.no_viable())?;
        self.next();
        self.expect(")")?;
        Ok(Term::Cast(Box::new(value), target))
    }

    fn cell_fact(&mut self, fact: CellFact) -> Result<Term> {
        self.at += 2;
        let of = self.deeper(|parser| parser.group(true))?;
        self.expect(")")?;
        Ok(Term::Metadata(fact, Box::new(of)))
    }
}
