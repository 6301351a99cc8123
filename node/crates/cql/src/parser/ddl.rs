//! CREATE, ALTER and DROP.

use super::{Parser, Result};
use crate::ast::{
    AlterTableAction, AlterTypeAction, CreateTable, Properties, PropertyValue, RawType, Statement,
    Term,
};
use crate::lexer::TokenKind;

/// Things that are made, changed and dropped but not done yet, with the words that start them.
const NOT_YET: [(&[&str], &str); 14] = [
    (&["INDEX"], "CREATE, ALTER or DROP INDEX"),
    (&["CUSTOM", "INDEX"], "CREATE CUSTOM INDEX"),
    (&["MATERIALIZED", "VIEW"], "MATERIALIZED VIEW"),
    (&["FUNCTION"], "FUNCTION"),
    (&["OR", "REPLACE", "FUNCTION"], "FUNCTION"),
    (&["AGGREGATE"], "AGGREGATE"),
    (&["OR", "REPLACE", "AGGREGATE"], "AGGREGATE"),
    (&["TRIGGER"], "TRIGGER"),
    (&["ROLE"], "ROLE"),
    (&["USER"], "USER"),
    (&["IDENTITY"], "IDENTITY"),
    (&["GENERATED"], "GENERATED"),
    (&["CIDR"], "CIDR"),
    (&["VIEW"], "VIEW"),
];

impl Parser<'_> {
    fn not_yet(&mut self) -> Result<Statement> {
        let found = NOT_YET
            .iter()
            .find(|(words, _)| {
                words
                    .iter()
                    .enumerate()
                    .all(|(ahead, word)| self.is_word_at(ahead, word))
            })
            .map(|entry| entry.1);
        match found {
            Some(feature) => self.unsupported(feature),
            None => Err(self.no_viable()),
        }
    }

    fn eat_table_word(&mut self) -> bool {
        self.eat_word("TABLE") || self.eat_word("COLUMNFAMILY")
    }

    fn eat_keyspace_word(&mut self) -> bool {
        self.eat_word("KEYSPACE") || self.eat_word("SCHEMA")
    }

    pub(super) fn create(&mut self) -> Result<Statement> {
        self.at += 1;
        if self.eat_keyspace_word() {
            let if_not_exists = self.if_not_exists()?;
            let name = self.name()?;
            self.expect_word("WITH")?;
            let properties = self.properties()?;
            return Ok(Statement::CreateKeyspace {
                name,
                if_not_exists,
                properties,
            });
        }
        if self.eat_table_word() {
            return self.create_table();
        }
        if self.eat_word("TYPE") {
            let if_not_exists = self.if_not_exists()?;
            let name = self.qualified_name()?;
            self.expect("(")?;
            let mut fields = vec![self.field()?];
            while self.eat(",") {
                if self.is(")") {
                    break;
                }
                fields.push(self.field()?);
            }
            self.expect(")")?;
            return Ok(Statement::CreateType {
                name,
                if_not_exists,
                fields,
            });
        }
        self.not_yet()
    }

    fn field(&mut self) -> Result<(String, RawType)> {
        Ok((self.name()?, self.comparator_type()?))
    }

    fn create_table(&mut self) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.qualified_name()?;
        let mut table = CreateTable {
            keyspace: name.keyspace,
            name: name.name,
            if_not_exists,
            ..CreateTable::default()
        };
        self.expect("(")?;
        self.table_column(&mut table)?;
        while self.eat(",") {
            if !self.is(")") && !self.is(",") {
                self.table_column(&mut table)?;
            }
        }
        self.expect(")")?;
        if self.eat_word("WITH") {
            loop {
                self.table_property(&mut table)?;
                if !self.eat_word("AND") {
                    break;
                }
            }
        }
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn table_column(&mut self, table: &mut CreateTable) -> Result<()> {
        if self.eat_words(&["PRIMARY", "KEY"]) {
            self.expect("(")?;
            let partition_key = if self.eat("(") {
                let columns = self.list(Self::name)?;
                self.expect(")")?;
                columns
            } else {
                vec![self.name()?]
            };
            let clustering = if self.eat(",") {
                self.list(Self::name)?
            } else {
                Vec::new()
            };
            self.expect(")")?;
            table.primary_keys.push((partition_key, clustering));
            return Ok(());
        }
        let name = self.name()?;
        let cql_type = self.comparator_type()?;
        let is_static = self.eat_word("STATIC");
        table.masked |= self.column_mask()?;
        if self.eat_word("PRIMARY") {
            self.expect_word("KEY")?;
            table.primary_keys.push((vec![name.clone()], Vec::new()));
        }
        table.columns.push((name, cql_type, is_static));
        Ok(())
    }

    fn column_mask(&mut self) -> Result<bool> {
        if !self.eat_words(&["MASKED", "WITH"]) {
            return Ok(false);
        }
        if !self.eat_word("DEFAULT") {
            self.qualified_name()?;
            self.expect("(")?;
            if !self.is(")") {
                self.list(Self::term)?;
            }
            self.expect(")")?;
        }
        Ok(true)
    }

    fn table_property(&mut self, table: &mut CreateTable) -> Result<()> {
        if self.eat_words(&["COMPACT", "STORAGE"]) {
            table.compact_storage = true;
        } else if self.eat_words(&["CLUSTERING", "ORDER", "BY"]) {
            self.expect("(")?;
            let order = self.list(|parser| {
                let column = parser.name()?;
                let descending = parser.eat_word("DESC");
                if !descending && !parser.eat_word("ASC") {
                    return Err(parser.no_viable());
                }
                Ok((column, descending))
            })?;
            self.expect(")")?;
            table.clustering_order.extend(order);
        } else {
            table.properties.push(self.property()?);
        }
        Ok(())
    }

    pub(super) fn properties(&mut self) -> Result<Properties> {
        let mut properties = vec![self.property()?];
        while self.eat_word("AND") {
            properties.push(self.property()?);
        }
        Ok(properties)
    }

    fn property(&mut self) -> Result<(String, PropertyValue)> {
        let name = self.name()?;
        self.expect("=")?;
        if self.eat("{") {
            let mut entries = Vec::new();
            if !self.is("}") {
                entries = self.list(|parser| {
                    let key = parser.property_constant()?;
                    parser.expect(":")?;
                    Ok((key, parser.property_constant()?))
                })?;
            }
            self.expect("}")?;
            return Ok((name, PropertyValue::Map(entries)));
        }
        if self.is_name_at(0) {
            return Ok((name, PropertyValue::Simple(self.name()?)));
        }
        Ok((name, PropertyValue::Simple(self.property_constant()?)))
    }

    fn property_constant(&mut self) -> Result<String> {
        match self.term()? {
            Term::Literal(_, text) => Ok(text),
            other => Err(crate::error::CqlError::Syntax(format!(
                "Invalid property value: {}",
                crate::text::term(&other)
            ))),
        }
    }

    pub(super) fn alter(&mut self) -> Result<Statement> {
        self.at += 1;
        if self.eat_keyspace_word() {
            let if_exists = self.if_exists()?;
            let name = self.name()?;
            self.expect_word("WITH")?;
            return Ok(Statement::AlterKeyspace {
                name,
                if_exists,
                properties: self.properties()?,
            });
        }
        if self.eat_table_word() {
            let if_exists = self.if_exists()?;
            let table = self.qualified_name()?;
            let action = self.alter_table_action()?;
            return Ok(Statement::AlterTable {
                table,
                if_exists,
                action,
            });
        }
        if self.eat_word("TYPE") {
            let if_exists = self.if_exists()?;
            let name = self.qualified_name()?;
            let action = self.alter_type_action()?;
            return Ok(Statement::AlterType {
                name,
                if_exists,
                action,
            });
        }
        self.not_yet()
    }

    fn alter_table_action(&mut self) -> Result<AlterTableAction> {
        if self.eat_word("WITH") {
            return Ok(AlterTableAction::With(self.properties()?));
        }
        if self.eat_word("ADD") {
            return self.added_columns();
        }
        if self.eat_word("DROP") {
            return self.dropped_columns();
        }
        if self.eat_word("RENAME") {
            let if_exists = self.if_exists()?;
            return Ok(AlterTableAction::Rename {
                renames: self.renames()?,
                if_exists,
            });
        }
        self.expect_word("ALTER")?;
        self.if_exists()?;
        self.name()?;
        if self.eat_word("TYPE") {
            self.comparator_type()?;
            return Ok(AlterTableAction::AlterType);
        }
        if !self.eat_words(&["DROP", "MASKED"]) {
            self.column_mask()?;
        }
        Ok(AlterTableAction::Mask)
    }

    fn added_columns(&mut self) -> Result<AlterTableAction> {
        let if_not_exists = self.if_not_exists()?;
        let mut masked = false;
        let parenthesized = self.eat("(");
        let columns = self.list(|parser| {
            let column = (
                parser.name()?,
                parser.comparator_type()?,
                parser.eat_word("STATIC"),
            );
            masked |= parser.column_mask()?;
            Ok(column)
        })?;
        if parenthesized {
            self.expect(")")?;
        }
        Ok(if masked {
            AlterTableAction::Mask
        } else {
            AlterTableAction::Add {
                columns,
                if_not_exists,
            }
        })
    }

    fn dropped_columns(&mut self) -> Result<AlterTableAction> {
        if self.eat_words(&["COMPACT", "STORAGE"]) {
            return Ok(AlterTableAction::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns = if self.eat("(") {
            let columns = self.list(Self::name)?;
            self.expect(")")?;
            columns
        } else {
            self.list(Self::name)?
        };
        let mut timestamp = None;
        if self.eat_words(&["USING", "TIMESTAMP"]) {
            let text = self.integer()?;
            timestamp = text.parse().ok();
        }
        Ok(AlterTableAction::Drop {
            columns,
            if_exists,
            timestamp,
        })
    }

    fn renames(&mut self) -> Result<Vec<(String, String)>> {
        let mut renames = Vec::new();
        loop {
            let from = self.name()?;
            self.expect_word("TO")?;
            renames.push((from, self.name()?));
            if !self.eat_word("AND") {
                return Ok(renames);
            }
        }
    }

    fn alter_type_action(&mut self) -> Result<AlterTypeAction> {
        if self.eat_word("ADD") {
            let if_not_exists = self.if_not_exists()?;
            return Ok(AlterTypeAction::Add {
                name: self.name()?,
                field_type: self.comparator_type()?,
                if_not_exists,
            });
        }
        if self.eat_word("RENAME") {
            let if_exists = self.if_exists()?;
            return Ok(AlterTypeAction::Rename {
                renames: self.renames()?,
                if_exists,
            });
        }
        self.expect_word("ALTER")?;
        self.name()?;
        self.expect_word("TYPE")?;
        self.comparator_type()?;
        Ok(AlterTypeAction::AlterType)
    }

    pub(super) fn drop(&mut self) -> Result<Statement> {
        self.at += 1;
        if self.eat_keyspace_word() {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropKeyspace {
                name: self.name()?,
                if_exists,
            });
        }
        if self.eat_table_word() {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropTable {
                table: self.qualified_name()?,
                if_exists,
            });
        }
        if self.eat_word("TYPE") {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropType {
                name: self.qualified_name()?,
                if_exists,
            });
        }
        if self.peek().kind == TokenKind::Eof {
            return Err(self.no_viable());
        }
        self.not_yet()
    }
}
