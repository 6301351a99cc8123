//! SELECT and WHERE.

use super::{Parser, Result};
use crate::ast::{Comparison, InValues, Relation, Select, Statement, Term};
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Statement> {
        self.expect_word("SELECT")?;
        let selects = |parser: &Self| {
            !parser.is_mark_at(1, ",")
                && !parser.is_word_at(1, "FROM")
                && !parser.is_word_at(1, "AS")
                && !parser.is_mark_at(1, "(")
                && !parser.is_mark_at(1, ".")
                && !parser.is_mark_at(1, "[")
        };
        let json = self.is_word("JSON") && selects(self) && self.eat_word("JSON");
        let distinct = self.is_word("DISTINCT") && selects(self) && self.eat_word("DISTINCT");
        let selectors = self.select_list()?;
        self.expect_word("FROM")?;
        let table = self.qualified_name()?;
        let relations = if self.eat_word("WHERE") {
            self.where_clause()?
        } else {
            Vec::new()
        };
        let mut group_by = Vec::new();
        if self.eat_word("GROUP") {
            self.expect_word("BY")?;
            group_by = self.list(Self::selector)?;
        }
        let (order_by, ann) = self.order_by()?;
        let mut per_partition_limit = None;
        if self.eat_word("PER") {
            self.expect_word("PARTITION")?;
            self.expect_word("LIMIT")?;
            per_partition_limit = Some(self.integer_or_marker()?);
        }
        let limit = if self.eat_word("LIMIT") {
            Some(self.integer_or_marker()?)
        } else {
            None
        };
        let allow_filtering = self.eat_word("ALLOW");
        if allow_filtering {
            self.expect_word("FILTERING")?;
        }
        Ok(Statement::Select(Box::new(Select {
            json,
            distinct,
            selectors,
            table,
            relations,
            group_by,
            order_by,
            ann,
            per_partition_limit,
            limit,
            allow_filtering,
        })))
    }

    /// What is selected, each with its alias; nothing for `*`.
    fn select_list(&mut self) -> Result<Vec<(Term, Option<String>)>> {
        if self.eat("*") {
            return Ok(Vec::new());
        }
        self.list(|parser| {
            let term = parser.selector()?;
            let alias = if parser.eat_word("AS") {
                Some(parser.name()?)
            } else {
                None
            };
            Ok((term, alias))
        })
    }

    /// Columns with whether they descend, and whether nearest neighbours are asked for.
    fn order_by(&mut self) -> Result<(Vec<(String, bool)>, bool)> {
        let (mut order_by, mut ann) = (Vec::new(), false);
        if self.eat_word("ORDER") {
            self.expect_word("BY")?;
            order_by = self.list(|parser| {
                let column = parser.name()?;
                if parser.eat_words(&["ANN", "OF"]) {
                    ann = true;
                    parser.term()?;
                }
                let descending = parser.eat_word("DESC");
                if !descending {
                    parser.eat_word("ASC");
                }
                Ok((column, descending))
            })?;
        }
        Ok((order_by, ann))
    }

    pub(super) fn integer_or_marker(&mut self) -> Result<Term> {
        if self.is_marker() {
            return Ok(Term::Marker(self.marker()?));
        }
        if self.peek().kind != TokenKind::Integer {
            return Err(self.no_viable());
        }
        Ok(Term::Literal(
            crate::ast::LiteralKind::Integer,
            self.next().text,
        ))
    }

    pub(super) fn where_clause(&mut self) -> Result<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.eat_word("AND") {
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Result<Relation> {
        self.deeper(Self::relation_inner)
    }

    fn relation_inner(&mut self) -> Result<Relation> {
        if self.is_word("TOKEN") && self.is_mark_at(1, "(") {
            self.at += 1;
            let columns = self.column_tuple()?;
            let comparison = self.comparison()?;
            return Ok(Relation::Token {
                columns,
                comparison,
                value: self.term()?,
            });
        }
        if self.is_word("EXPR") && self.is_mark_at(1, "(") {
            self.at += 2;
            let index = self.qualified_name()?.name;
            self.expect(",")?;
            self.term()?;
            self.expect(")")?;
            return Ok(Relation::CustomIndex { index });
        }
        if self.is("(") {
            return self.tuple_relation();
        }
        let column = self.name()?;
        self.column_relation(column)
    }

    /// What follows the name of a column in WHERE.
    fn column_relation(&mut self, column: String) -> Result<Relation> {
        if self.eat_word("IS") {
            self.expect_word("NOT")?;
            self.expect_word("NULL")?;
            return Ok(Relation::IsNotNull { column });
        }
        if self.eat_word("IN") {
            return Ok(Relation::In {
                column,
                values: self.in_values()?,
            });
        }
        if self.eat_word("LIKE") {
            return Ok(Relation::Column {
                column,
                comparison: Comparison::Like,
                value: self.term()?,
            });
        }
        if self.eat_word("CONTAINS") {
            let comparison = if self.eat_word("KEY") {
                Comparison::ContainsKey
            } else {
                Comparison::Contains
            };
            return Ok(Relation::Column {
                column,
                comparison,
                value: self.term()?,
            });
        }
        if self.eat("[") {
            let key = self.term()?;
            self.expect("]")?;
            let comparison = self.comparison()?;
            return Ok(Relation::MapEntry {
                column,
                key,
                comparison,
                value: self.term()?,
            });
        }
        let comparison = self.comparison()?;
        Ok(Relation::Column {
            column,
            comparison,
            value: self.term()?,
        })
    }

    fn in_values(&mut self) -> Result<InValues> {
        if self.is_marker() {
            return Ok(InValues::Marker(self.marker()?));
        }
        self.expect("(")?;
        let values = if self.is(")") {
            Vec::new()
        } else {
            self.list(Self::term)?
        };
        self.expect(")")?;
        Ok(InValues::List(values))
    }

    fn column_tuple(&mut self) -> Result<Vec<String>> {
        self.expect("(")?;
        let columns = self.list(Self::name)?;
        self.expect(")")?;
        Ok(columns)
    }

    fn tuple_relation(&mut self) -> Result<Relation> {
        // `(relation)` is allowed too: a name is followed by ',' or ')' in a tuple of columns
        if !(self.is_mark_at(2, ",") || self.is_mark_at(2, ")")) {
            self.expect("(")?;
            let relation = self.relation()?;
            self.expect(")")?;
            return Ok(relation);
        }
        let columns = self.column_tuple()?;
        if self.eat_word("IN") {
            return Ok(Relation::TupleIn {
                columns,
                values: self.in_values()?,
            });
        }
        let comparison = self.comparison()?;
        Ok(Relation::Tuple {
            columns,
            comparison,
            value: self.term()?,
        })
    }

    fn comparison(&mut self) -> Result<Comparison> {
        let token = self.peek();
        let found = match (token.kind, token.text.as_str()) {
            (TokenKind::Punct, "=") => Comparison::Equal,
            (TokenKind::Punct, "!=") => Comparison::NotEqual,
            (TokenKind::Punct, "<") => Comparison::Less,
            (TokenKind::Punct, "<=") => Comparison::LessEqual,
            (TokenKind::Punct, ">") => Comparison::Greater,
            (TokenKind::Punct, ">=") => Comparison::GreaterEqual,
            _ => return Err(self.no_viable()),
        };
        self.next();
        Ok(found)
    }
}
