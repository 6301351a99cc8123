//! Data for a joining or replacing node: its ranges read page by page from their owners with
//! RANGE_REQ, tombstones included, and applied here. Cassandra's streaming protocol, which sends
//! whole SSTables, comes with later work; this way works with Cassandra nodes too.

use super::{Control, ControlMessage};
use crate::messaging::Messaging;
use crate::replicas::codec_version;
use crate::shards::LocalData;
use helenus_internode::payload::FailureReason;
use helenus_internode::verb::Verb;
use helenus_ring::{Fetch, TokenRange};
use helenus_rows::command::ResumeAfter;
use helenus_rows::wire::{ReadAnswer, decode_answer, encode_command};
use helenus_rows::{
    ClusteringFilter, ColumnFilter, DataLimits, DataRange, Mutation, Partition, PartitionPosition,
    PartitionUpdate, ReadCommand, ReadKind, RowFilter,
};
use helenus_schema::{Schema, TableMetadata};
use helenus_types::{Endpoint, Reader, Token};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Live rows of one page.
const PAGE_ROWS: u32 = 2_000;
/// Live rows of one page after a page was refused.
const SMALL_PAGE_ROWS: u32 = 50;
const ATTEMPTS: usize = 5;

/// Why a page did not come.
#[derive(Debug)]
enum NoPage {
    /// The peer can answer, but not this: too large, too many tombstones, too slow. Less may be answered.
    Refused(String),
    /// Nothing to be done about it here.
    Failed(String),
}

/// Reads from one peer and applies here.
struct Stream {
    messaging: Rc<Messaging>,
    local: LocalData,
    from: Endpoint,
    timeout: Duration,
    now_in_seconds: i64,
    partitions: u64,
}

impl Control {
    pub(super) fn start_streams(&mut self, fetches: Vec<Fetch>) {
        let schema = self.shared.schema.load_full();
        let (messaging, local, reporter) = (
            Rc::clone(&self.messaging),
            self.local.clone(),
            self.reporter(),
        );
        let timeout = self.shared.settings.range_request_timeout;
        let now_in_seconds = self.shared.clock.now_in_seconds();
        tokio::task::spawn_local(async move {
            let outcome = run(messaging, local, &schema, fetches, timeout, now_in_seconds).await;
            // the control thread may have ended
            drop(reporter.send(ControlMessage::StreamEnded(outcome)).await);
        });
    }
}

async fn run(
    messaging: Rc<Messaging>,
    local: LocalData,
    schema: &Schema,
    fetches: Vec<Fetch>,
    timeout: Duration,
    now_in_seconds: i64,
) -> Result<u64, String> {
    let mut partitions = 0;
    for fetch in fetches {
        let Some(keyspace) = schema.keyspace(&fetch.keyspace) else {
            continue;
        };
        for table in keyspace.tables.values() {
            let mut stream = Stream {
                messaging: Rc::clone(&messaging),
                local: local.clone(),
                from: fetch.from,
                timeout,
                now_in_seconds,
                partitions: 0,
            };
            for range in fetch.ranges.iter().flat_map(TokenRange::unwrapped) {
                stream.range(table, range).await.map_err(|error| {
                    format!(
                        "{}.{} from {}: {error}",
                        table.keyspace, table.name, fetch.from
                    )
                })?;
            }
            if stream.partitions > 0 {
                tracing::info!(
                    keyspace = %table.keyspace, table = %table.name, from = %fetch.from,
                    partitions = stream.partitions, "streamed a table"
                );
            }
            partitions += stream.partitions;
        }
    }
    // what was received must survive before the node says that it has it
    local
        .shards
        .flush(None)
        .await
        .map_err(|error| error.to_string())?;
    Ok(partitions)
}

impl Stream {
    /// A range that the peer refuses as it is comes in halves, down to single tokens.
    async fn range(&mut self, table: &Arc<TableMetadata>, range: TokenRange) -> Result<(), String> {
        let (mut left, mut rows) = (vec![range], PAGE_ROWS);
        while let Some(range) = left.pop() {
            match self.pages(table, range, rows).await {
                Ok(()) => {}
                Err(NoPage::Failed(error)) => return Err(error),
                Err(NoPage::Refused(error)) => {
                    rows = SMALL_PAGE_ROWS;
                    let Some((first, second)) = halves(range) else {
                        return Err(error);
                    };
                    tracing::debug!(table = %table.name, ?range, %error, "a range is streamed in halves");
                    left.extend([second, first]);
                }
            }
        }
        Ok(())
    }

    async fn pages(
        &mut self,
        table: &Arc<TableMetadata>,
        range: TokenRange,
        rows: u32,
    ) -> Result<(), NoPage> {
        let start = if range.after == Token::MINIMUM {
            PartitionPosition::MinOf(range.after)
        } else {
            PartitionPosition::MaxOf(range.after)
        };
        let end = if range.up_to == Token::MINIMUM {
            PartitionPosition::MinOf(range.up_to)
        } else {
            PartitionPosition::MaxOf(range.up_to)
        };
        let mut wanted = DataRange {
            start,
            end,
            filter: ClusteringFilter::all(),
            resume_after: None,
        };
        loop {
            let command = ReadCommand {
                table: Arc::clone(table),
                now_in_seconds: self.now_in_seconds,
                columns: ColumnFilter::All {
                    queried: Vec::new(),
                },
                row_filter: RowFilter::default(),
                limits: DataLimits::rows(rows),
                kind: ReadKind::Range(wanted.clone()),
            };
            let page = self.page(&command).await?;
            let next = next_page(&page, &command);
            self.partitions += page.len() as u64;
            for partition in page {
                self.apply(table, partition).await.map_err(NoPage::Failed)?;
            }
            match next {
                Some((start, resume_after)) => {
                    wanted.start = start;
                    wanted.resume_after = resume_after;
                }
                None => return Ok(()),
            }
        }
    }

    async fn page(&self, command: &ReadCommand) -> Result<Vec<Partition>, NoPage> {
        let mut error = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            match self.ask(command).await {
                Err(NoPage::Failed(reason)) => error = reason,
                other => return other,
            }
        }
        Err(NoPage::Failed(error))
    }

    async fn ask(&self, command: &ReadCommand) -> Result<Vec<Partition>, NoPage> {
        let shared = command.clone();
        let encode: crate::messaging::Encode = Box::new(move |version| {
            let mut out = Vec::new();
            encode_command(
                &shared,
                false,
                u32::from(version.number()),
                codec_version(version),
                &mut out,
            )
            .map_err(|error| {
                helenus_internode::error::EncodeError::Unwritable(error.to_string())
            })?;
            Ok(out.into())
        });
        let answer = self
            .messaging
            .request(self.from, Verb::RangeReq, self.timeout, encode)
            .await
            .map_err(|reason| match reason {
                FailureReason::Timeout => NoPage::Refused("no answer in time".into()),
                other => NoPage::Failed(format!("no answer: {other:?}")),
            })?;
        if answer.message.header.verb != Verb::RangeRsp {
            return Err(refusal(&answer));
        }
        let mut reader = Reader::new(answer.message.payload.clone());
        match decode_answer(&mut reader, command, codec_version(answer.version)) {
            Ok(ReadAnswer::Data(partitions)) => Ok(partitions),
            Ok(ReadAnswer::Digest(_)) => {
                Err(NoPage::Failed("the peer answered with a digest".into()))
            }
            Err(error) => Err(NoPage::Failed(error.to_string())),
        }
    }

    async fn apply(&self, table: &Arc<TableMetadata>, partition: Partition) -> Result<(), String> {
        let mutation = Mutation::of(PartitionUpdate {
            table: Arc::clone(table),
            partition,
        });
        loop {
            match self.local.apply(mutation.clone()).await {
                Ok(()) => return Ok(()),
                // memtables are full: the flush that frees them goes on meanwhile
                Err(crate::shards::LocalError::Overloaded(_)) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

fn refusal(answer: &crate::messaging::Received) -> NoPage {
    match FailureReason::decode(answer.message.payload.clone()) {
        Ok(reason @ (FailureReason::IncompatibleSchema | FailureReason::NodeDown)) => {
            NoPage::Failed(format!("the peer refused the read: {reason:?}"))
        }
        reason => NoPage::Refused(format!("the peer refused the read: {reason:?}")),
    }
}

/// The two halves of a range that does not wrap; `None` for a single token.
fn halves(range: TokenRange) -> Option<(TokenRange, TokenRange)> {
    let from = i128::from(range.after.0);
    let to = if range.up_to == Token::MINIMUM {
        i128::from(i64::MAX)
    } else {
        i128::from(range.up_to.0)
    };
    let middle = i64::try_from((from + to).div_euclid(2)).ok().map(Token)?;
    let inside = middle > range.after && i128::from(middle.0) < to;
    inside.then_some((
        TokenRange {
            after: range.after,
            up_to: middle,
        },
        TokenRange {
            after: middle,
            up_to: range.up_to,
        },
    ))
}

/// Where the next page starts; `None` when this was the last: it has fewer live rows than asked for.
fn next_page(
    page: &[Partition],
    command: &ReadCommand,
) -> Option<(PartitionPosition, Option<ResumeAfter>)> {
    let live =
        helenus_coordinator::resolve::live_rows(page, &command.limits, command.now_in_seconds);
    if live < u64::from(command.limits.rows) {
        return None;
    }
    let last = page.last()?;
    let row = last
        .rows()
        .last()
        .map(|row| row.clustering.clone())
        .filter(|clustering| !clustering.0.is_empty());
    let start = PartitionPosition::Key {
        key: last.key.clone(),
        inclusive: row.is_some(),
    };
    Some((
        start,
        row.map(|clustering| ResumeAfter {
            clustering,
            inclusive: false,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_halved_down_to_a_token() {
        let range = |after, up_to| TokenRange {
            after: Token(after),
            up_to: Token(up_to),
        };
        assert_eq!(halves(range(0, 10)), Some((range(0, 5), range(5, 10))));
        assert_eq!(halves(range(7, 9)), Some((range(7, 8), range(8, 9))));
        assert_eq!(halves(range(8, 9)), None);
        assert_eq!(
            halves(range(i64::MIN, i64::MIN)),
            Some((range(i64::MIN, -1), range(-1, i64::MIN)))
        );
        let mut last = range(0, i64::MIN);
        let mut count = 0;
        while let Some((_, second)) = halves(last) {
            last = second;
            count += 1;
        }
        assert!(count < 70, "{count}");
    }
}
