//! CQL on this node's own tables: `system` and `system_schema`.

use crate::shards::LocalData;
use anyhow::{Result, bail};
use arc_swap::ArcSwap;
use bytes::Bytes;
use helenus_cql::{BindContext, BoundValues, Plan, ResultRows};
use helenus_schema::Schema;
use helenus_seams::{Clock, Entropy};
use std::sync::Arc;

/// Runs statements against local tables.
#[derive(Clone)]
pub(crate) struct Queries {
    pub(crate) local: LocalData,
    pub(crate) schema: Arc<ArcSwap<Schema>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

impl Queries {
    fn context(&self) -> BindContext {
        let now_micros = self.clock.wall_micros();
        let (a, b) = (self.entropy.next_u64(), self.entropy.next_u64());
        BindContext {
            timestamp_micros: now_micros,
            now_micros,
            now_in_seconds: now_micros.div_euclid(1_000_000),
            entropy: ((u128::from(a) << 64) | u128::from(b)).to_be_bytes(),
            ..BindContext::default()
        }
    }

    /// Runs a statement; the rows of a SELECT.
    pub(crate) async fn run(&self, query: &str) -> Result<Vec<Vec<Option<Bytes>>>> {
        let schema = self.schema.load_full();
        let prepared = helenus_cql::prepare(query, &schema, None)?;
        match prepared.bind(&BoundValues::default(), &self.context(), &schema)? {
            Plan::Read(select) => {
                let mut execution = select.start();
                loop {
                    let commands = execution.next_commands(16);
                    if commands.is_empty() {
                        break;
                    }
                    let mut answers = Vec::with_capacity(commands.len());
                    for command in commands {
                        answers.push(self.local.read(command).await?);
                    }
                    execution.feed(&answers)?;
                }
                let ResultRows { rows, .. } = execution.finish()?;
                Ok(rows)
            }
            Plan::Write { mutations, .. } => {
                for mutation in mutations {
                    self.local.apply(mutation).await?;
                }
                Ok(Vec::new())
            }
            _ => bail!("not a read or write of local tables: {query}"),
        }
    }
}

/// A text as a CQL literal.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
