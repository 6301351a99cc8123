//! Prepared statements: texts shared by all shards, plans kept by each.

use bytes::Bytes;
use helenus_cql::{CqlError, Prepared};
use helenus_schema::Schema;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// More distinct statements than this make the oldest be forgotten (clients prepare them again).
const MAX_STATEMENTS: usize = 10_000;

#[derive(Debug, Clone)]
struct Text {
    query: String,
    keyspace: Option<String>,
}

#[derive(Debug, Default)]
struct Texts {
    by_id: HashMap<Bytes, Text>,
    order: std::collections::VecDeque<Bytes>,
}

/// The texts of prepared statements of all shards.
#[derive(Debug, Default)]
pub struct SharedStatements {
    texts: Mutex<Texts>,
}

impl SharedStatements {
    fn insert(&self, id: Bytes, text: Text) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.by_id.insert(id.clone(), text).is_none() {
            texts.order.push_back(id);
            if texts.order.len() > MAX_STATEMENTS
                && let Some(oldest) = texts.order.pop_front()
            {
                texts.by_id.remove(&oldest);
            }
        }
    }

    fn get(&self, id: &Bytes) -> Option<Text> {
        self.texts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .by_id
            .get(id)
            .cloned()
    }
}

/// A statement and the schema that it was prepared with.
type Kept = (Arc<Schema>, Arc<Statement>);

/// Statements as one shard has prepared them.
#[derive(Debug)]
pub(crate) struct Statements {
    shared: Arc<SharedStatements>,
    local: RefCell<HashMap<Bytes, Kept>>,
}

/// A statement prepared with one schema.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) query: String,
    pub(crate) keyspace: Option<String>,
    pub(crate) prepared: Prepared,
}

fn prepare(text: Text, schema: &Schema) -> Result<(bool, Arc<Statement>), CqlError> {
    let parsed = helenus_cql::parse(&text.query)?;
    let qualified = helenus_cql::is_fully_qualified(&parsed.statement);
    let prepared = helenus_cql::prepare_parsed(parsed, schema, text.keyspace.as_deref())?;
    Ok((
        qualified,
        Arc::new(Statement {
            query: text.query,
            keyspace: text.keyspace,
            prepared,
        }),
    ))
}

impl Statements {
    pub(crate) fn new(shared: Arc<SharedStatements>) -> Self {
        Self {
            shared,
            local: RefCell::default(),
        }
    }

    /// Prepares a statement; its id is Cassandra's.
    pub(crate) fn prepare(
        &self,
        query: &str,
        keyspace: Option<&str>,
        schema: &Arc<Schema>,
    ) -> Result<(Bytes, Arc<Statement>), CqlError> {
        let text = Text {
            query: query.to_owned(),
            keyspace: keyspace.map(str::to_owned),
        };
        let (qualified, statement) = prepare(text.clone(), schema)?;
        let id = helenus_cql::prepared_id(query, keyspace.filter(|_| !qualified));
        let id = Bytes::copy_from_slice(&id);
        self.shared.insert(id.clone(), text);
        self.keep(id.clone(), schema, &statement);
        Ok((id, statement))
    }

    fn keep(&self, id: Bytes, schema: &Arc<Schema>, statement: &Arc<Statement>) {
        let mut local = self.local.borrow_mut();
        if local.len() >= MAX_STATEMENTS {
            local.clear();
        }
        local.insert(id, (Arc::clone(schema), Arc::clone(statement)));
    }

    /// The statement with this id, prepared anew if the schema has changed (V3); `None` when it is
    /// not known, or fits the schema no more: the client prepares it again and learns why.
    pub(crate) fn get(&self, id: &Bytes, schema: &Arc<Schema>) -> Option<Arc<Statement>> {
        if let Some((seen, statement)) = self.local.borrow().get(id)
            && Arc::ptr_eq(seen, schema)
        {
            return Some(Arc::clone(statement));
        }
        let (_, statement) = prepare(self.shared.get(id)?, schema).ok()?;
        self.keep(id.clone(), schema, &statement);
        Some(statement)
    }
}
