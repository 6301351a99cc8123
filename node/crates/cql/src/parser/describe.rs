//! DESCRIBE.

use super::{Parser, Result};
use crate::ast::{DescribeTarget, Statement};

/// Makes a target of a name.
type Make = fn(crate::ast::QualifiedName) -> DescribeTarget;

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Result<Statement> {
        self.at += 1;
        let target = self.describe_target()?;
        let internals = self.eat_words(&["WITH", "INTERNALS"]);
        Ok(Statement::Describe { target, internals })
    }

    fn describe_target(&mut self) -> Result<DescribeTarget> {
        let full = self.is_word("FULL") && self.is_word_at(1, "SCHEMA") && self.eat_word("FULL");
        if self.eat_word("SCHEMA") {
            return Ok(DescribeTarget::Schema { full });
        }
        for (word, target) in [
            ("CLUSTER", DescribeTarget::Cluster),
            ("KEYSPACES", DescribeTarget::Keyspaces),
            ("TABLES", DescribeTarget::Tables),
            ("TYPES", DescribeTarget::Types),
            ("FUNCTIONS", DescribeTarget::Functions),
            ("AGGREGATES", DescribeTarget::Aggregates),
        ] {
            if self.eat_word(word) {
                return Ok(target);
            }
        }
        let only = self.is_word("ONLY") && self.is_word_at(1, "KEYSPACE") && self.eat_word("ONLY");
        if self.eat_word("KEYSPACE") {
            let name = if self.is_name_at(0) {
                Some(self.name()?)
            } else {
                None
            };
            return Ok(DescribeTarget::Keyspace { name, only });
        }
        if self.eat_word("TABLE") || self.eat_word("COLUMNFAMILY") {
            return Ok(DescribeTarget::Table(self.qualified_name()?));
        }
        if self.eat_words(&["MATERIALIZED", "VIEW"]) {
            return Ok(DescribeTarget::View(self.qualified_name()?));
        }
        if self.eat_word("INDEX") {
            return Ok(DescribeTarget::Index(self.qualified_name()?));
        }
        let named: [(&str, Make); 3] = [
            ("TYPE", DescribeTarget::Type),
            ("FUNCTION", DescribeTarget::Function),
            ("AGGREGATE", DescribeTarget::Aggregate),
        ];
        for (word, make) in named {
            if self.is_word(word) && self.is_name_at(1) {
                self.at += 1;
                return Ok(make(self.qualified_name()?));
            }
        }
        Ok(DescribeTarget::Any(self.qualified_name()?))
    }
}
