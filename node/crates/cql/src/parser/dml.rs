//! INSERT, UPDATE, DELETE and BATCH.

use super::{Parser, Result};
use crate::ast::{
    Assignment, Attributes, Batch, BatchKind, Delete, Deletion, Insert, InsertValues, LiteralKind,
    Statement, Term, Update,
};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn insert(&mut self) -> Result<Statement> {
        self.expect_word("INSERT")?;
        self.expect_word("INTO")?;
        let table = self.qualified_name()?;
        let values = if self.eat_word("JSON") {
            self.json_values()?
        } else {
            self.column_values()?
        };
        let if_not_exists = self.if_not_exists()?;
        let attributes = self.attributes()?;
        Ok(Statement::Insert(Insert {
            table,
            values,
            if_not_exists,
            attributes,
        }))
    }

    fn json_values(&mut self) -> Result<InsertValues> {
        let value = if self.is_marker() {
            Term::Marker(self.marker()?)
        } else if self.peek().kind == TokenKind::String {
            Term::Literal(LiteralKind::String, self.next().text)
        } else {
            return Err(self.no_viable());
        };
        let mut default_unset = false;
        if self.eat_word("DEFAULT") && !self.eat_word("NULL") {
            self.expect_word("UNSET")?;
            default_unset = true;
        }
        Ok(InsertValues::Json {
            value,
            default_unset,
        })
    }

    fn column_values(&mut self) -> Result<InsertValues> {
        if !self.is("(") {
            return Err(self.no_viable());
        }
        self.at += 1;
        let columns = self.list(Self::name)?;
        self.expect(")")?;
        self.expect_word("VALUES")?;
        self.expect("(")?;
        let values = self.list(Self::term)?;
        self.expect(")")?;
        Ok(InsertValues::Columns(columns, values))
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        if !self.eat_word("USING") {
            return Ok(attributes);
        }
        loop {
            if self.eat_word("TIMESTAMP") {
                attributes.timestamp = Some(self.integer_or_marker()?);
            } else if self.eat_word("TTL") {
                attributes.ttl = Some(self.integer_or_marker()?);
            } else {
                return Err(self.no_viable());
            }
            if !self.eat_word("AND") {
                return Ok(attributes);
            }
        }
    }

    pub(super) fn update(&mut self) -> Result<Statement> {
        self.expect_word("UPDATE")?;
        let table = self.qualified_name()?;
        let attributes = self.attributes()?;
        self.expect_word("SET")?;
        let assignments = self.list(Self::assignment)?;
        self.expect_word("WHERE")?;
        let relations = self.where_clause()?;
        let conditional = self.conditions()?;
        Ok(Statement::Update(Update {
            table,
            attributes,
            assignments,
            relations,
            conditional,
        }))
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let column = self.name()?;
        if self.eat("[") {
            let key = self.term()?;
            self.expect("]")?;
            self.expect("=")?;
            return Ok(Assignment::Element(column, key, self.term()?));
        }
        if self.eat(".") {
            let field = self.name()?;
            self.expect("=")?;
            return Ok(Assignment::Field(column, field, self.term()?));
        }
        if self.eat("+=") {
            return Ok(Assignment::Append(column, self.term()?));
        }
        if self.eat("-=") {
            return Ok(Assignment::Subtract(column, self.term()?));
        }
        self.expect("=")?;
        // `c = c + value` and `c = c - value`; a call such as `now()` is a value
        let names_column =
            self.is_name_at(0) && !self.is_mark_at(1, "(") && !self.is_mark_at(1, ".");
        if names_column {
            return self.assignment_from_column(column);
        }
        let value = self.term()?;
        if self.eat("+") {
            let other = self.name()?;
            return if other == column {
                Ok(Assignment::Prepend(column, value))
            } else {
                Err(only_own_column("+", &column))
            };
        }
        Ok(Assignment::Set(column, value))
    }

    fn assignment_from_column(&mut self, column: String) -> Result<Assignment> {
        let other = self.name()?;
        let negative = self.peek().kind == TokenKind::Integer && self.peek().text.starts_with('-');
        let (minus, value) = if negative {
            let text = self.next().text;
            (
                true,
                Term::Literal(LiteralKind::Integer, text[1..].to_owned()),
            )
        } else if self.eat("+") {
            (false, self.term()?)
        } else if self.eat("-") {
            (true, self.term()?)
        } else {
            return Err(self.no_viable());
        };
        if other != column {
            return Err(only_own_column(if minus { "-" } else { "+" }, &column));
        }
        Ok(if minus {
            Assignment::Subtract(column, value)
        } else {
            Assignment::Append(column, value)
        })
    }

    /// Skips over conditions: IF statements are refused as a whole later.
    fn conditions(&mut self) -> Result<bool> {
        if !self.eat_word("IF") {
            return Ok(false);
        }
        if self.eat_word("EXISTS") {
            return Ok(true);
        }
        loop {
            let _column = self.name()?;
            if self.eat("[") {
                self.term()?;
                self.expect("]")?;
            } else if self.eat(".") {
                self.name()?;
            }
            if self.eat_word("IN") {
                if self.is_marker() {
                    self.marker()?;
                } else {
                    self.term()?;
                }
            } else {
                if self.eat_word("CONTAINS") {
                    self.eat_word("KEY");
                } else if !["=", "<", "<=", ">", ">=", "!="]
                    .iter()
                    .any(|sign| self.eat(sign))
                {
                    return Err(self.no_viable());
                }
                self.term()?;
            }
            if !self.eat_word("AND") {
                return Ok(true);
            }
        }
    }

    pub(super) fn delete(&mut self) -> Result<Statement> {
        self.expect_word("DELETE")?;
        let deletions = if self.is_word("FROM") {
            Vec::new()
        } else {
            self.list(Self::deletion)?
        };
        self.expect_word("FROM")?;
        let table = self.qualified_name()?;
        let mut attributes = Attributes::default();
        if self.eat_word("USING") {
            self.expect_word("TIMESTAMP")?;
            attributes.timestamp = Some(self.integer_or_marker()?);
        }
        self.expect_word("WHERE")?;
        let relations = self.where_clause()?;
        let conditional = self.conditions()?;
        Ok(Statement::Delete(Delete {
            table,
            attributes,
            deletions,
            relations,
            conditional,
        }))
    }

    fn deletion(&mut self) -> Result<Deletion> {
        let column = self.name()?;
        if self.eat("[") {
            let key = self.term()?;
            self.expect("]")?;
            return Ok(Deletion::Element(column, key));
        }
        if self.eat(".") {
            return Ok(Deletion::Field(column, self.name()?));
        }
        Ok(Deletion::Column(column))
    }

    pub(super) fn batch(&mut self) -> Result<Statement> {
        self.expect_word("BEGIN")?;
        let kind = if self.eat_word("UNLOGGED") {
            BatchKind::Unlogged
        } else if self.eat_word("COUNTER") {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_word("BATCH")?;
        let attributes = self.attributes()?;
        let mut statements = Vec::new();
        loop {
            if self.is_word("INSERT") {
                statements.push(self.insert()?);
            } else if self.is_word("UPDATE") {
                statements.push(self.update()?);
            } else if self.is_word("DELETE") {
                statements.push(self.delete()?);
            } else {
                break;
            }
            self.eat(";");
        }
        self.expect_word("APPLY")?;
        self.expect_word("BATCH")?;
        Ok(Statement::Batch(Batch {
            kind,
            attributes,
            statements,
        }))
    }
}

fn only_own_column(sign: &str, column: &str) -> crate::error::CqlError {
    let expression = if sign == "+" {
        format!("X = X + <value> for {column}")
    } else {
        format!("X = X - <value> for {column}")
    };
    crate::error::CqlError::Syntax(format!(
        "Only expressions of the form {expression} are supported."
    ))
}
