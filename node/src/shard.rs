//! One shard: a thread's engine with its group commit and background work.
//!
//! Writes of one turn of the event loop share one write to the commit log; each is acknowledged
//! after it (and after the sync, in `batch` and `group` mode). Flushes, compactions and syncs run on
//! the runtime's blocking threads.

use crate::shards::LocalError;
use helenus_coordinator::FailureReason;
use helenus_rows::{Mutation, Partition, ReadCommand};
use helenus_schema::{Schema, TableId};
use helenus_seams::{Clock, Disk};
use helenus_storage::Engine;
use helenus_storage::commitlog::CommitLogPosition;
use helenus_storage::metrics::EngineMetrics;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// How often a shard looks for work that time alone makes due.
const TICK: Duration = Duration::from_millis(50);

struct Waiter {
    position: CommitLogPosition,
    done: oneshot::Sender<Result<(), LocalError>>,
}

/// The engine of one shard and what goes on around it.
pub(crate) struct Shard {
    index: usize,
    engine: RefCell<Engine>,
    disk: Arc<dyn Disk>,
    /// Acknowledge only what is synced.
    sync_first: bool,
    /// Appended, not yet written to the log's file.
    unwritten: RefCell<Vec<Waiter>>,
    /// Written, not yet synced.
    unsynced: RefCell<Vec<Waiter>>,
    log_wanted: Notify,
    work_wanted: Notify,
    drained: Cell<bool>,
}

impl Shard {
    pub(crate) fn new(
        index: usize,
        engine: Engine,
        disk: Arc<dyn Disk>,
        sync_first: bool,
    ) -> Rc<Self> {
        Rc::new(Self {
            index,
            engine: RefCell::new(engine),
            disk,
            sync_first,
            unwritten: RefCell::default(),
            unsynced: RefCell::default(),
            log_wanted: Notify::new(),
            work_wanted: Notify::new(),
            drained: Cell::new(false),
        })
    }

    /// Starts the tasks that write the log and run background work.
    pub(crate) fn start(self: &Rc<Self>) {
        tokio::task::spawn_local(Rc::clone(self).write_log());
        tokio::task::spawn_local(Rc::clone(self).sync_log());
        tokio::task::spawn_local(Rc::clone(self).run_background());
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Applies a write; it survives a killed process (or more, by the sync mode) when this returns.
    pub(crate) async fn apply(&self, mutation: &Mutation) -> Result<(), LocalError> {
        if self.drained.get() {
            return Err(LocalError::Refused(
                "the node is drained".into(),
                FailureReason::Unknown,
            ));
        }
        let applied = self.engine.borrow_mut().apply(mutation)?;
        let Some(position) = applied.position else {
            return Ok(());
        };
        let (done, waiting) = oneshot::channel();
        self.unwritten.borrow_mut().push(Waiter { position, done });
        self.log_wanted.notify_one();
        waiting.await.unwrap_or_else(|_| {
            Err(LocalError::Refused(
                "the shard ended".into(),
                FailureReason::Unknown,
            ))
        })
    }

    pub(crate) fn read(&self, command: &ReadCommand) -> Result<Vec<Partition>, LocalError> {
        let outcome = self.engine.borrow_mut().read(command)?;
        if outcome.tombstone_warning {
            tracing::warn!(
                keyspace = %command.table.keyspace, table = %command.table.name, tombstones = outcome.tombstones_scanned,
                "a read passed many tombstones (tombstone_warn_threshold)"
            );
        }
        Ok(outcome.partitions)
    }

    pub(crate) fn set_schema(&self, schema: Arc<Schema>) -> Result<(), LocalError> {
        self.engine
            .borrow_mut()
            .schema_changed(schema)
            .map_err(|error| LocalError::Refused(error.to_string(), FailureReason::Unknown))
    }

    pub(crate) fn metrics(&self) -> EngineMetrics {
        self.engine.borrow().metrics()
    }

    pub(crate) fn truncate(&self, table: TableId) -> Result<(), LocalError> {
        self.engine
            .borrow_mut()
            .truncate(table)
            .map_err(|error| LocalError::Refused(error.to_string(), FailureReason::Unknown))
    }

    /// Flushes tables (or all) and waits until their memtables are SSTables.
    pub(crate) async fn flush(&self, tables: Option<Vec<TableId>>) -> Result<(), LocalError> {
        let before = {
            let mut engine = self.engine.borrow_mut();
            match tables {
                Some(tables) => tables
                    .into_iter()
                    .for_each(|table| engine.request_flush(table)),
                None => engine.request_flush_all(),
            }
            engine.metrics().flush_failures
        };
        self.work_wanted.notify_one();
        while self.engine.borrow().pending_flushes() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            if self.engine.borrow().metrics().flush_failures > before {
                let text = "a memtable could not be flushed; its writes stay in the commit log; see the log";
                return Err(LocalError::Refused(text.into(), FailureReason::Unknown));
            }
        }
        Ok(())
    }

    /// Takes no more writes, makes everything durable.
    pub(crate) async fn drain(&self) -> Result<(), LocalError> {
        self.drained.set(true);
        let flushed = self.flush(None).await;
        self.engine
            .borrow_mut()
            .sync_log()
            .map_err(|error| LocalError::Refused(error.to_string(), FailureReason::Unknown))?;
        flushed
    }

    async fn write_log(self: Rc<Self>) {
        loop {
            self.log_wanted.notified().await;
            // let every request that is ready append first: one write serves them all
            tokio::task::yield_now().await;
            let waiters = std::mem::take(&mut *self.unwritten.borrow_mut());
            let written = self.engine.borrow_mut().flush_log();
            match written {
                Err(error) => {
                    tracing::error!(shard = self.index, %error, "the commit log cannot be written: writes fail");
                    finish(
                        waiters,
                        &Err(LocalError::Refused(
                            error.to_string(),
                            FailureReason::Unknown,
                        )),
                    );
                }
                Ok(()) if self.sync_first => self.unsynced.borrow_mut().extend(waiters),
                Ok(()) => finish(waiters, &Ok(())),
            }
            self.work_wanted.notify_one();
        }
    }

    async fn sync_log(self: Rc<Self>) {
        // without a deadline of its own, batch mode is looked at often and periodic mode seldom
        let pause = Duration::from_millis(if self.sync_first { 1 } else { 100 });
        loop {
            tokio::time::sleep(pause).await;
            let task = {
                let mut engine = self.engine.borrow_mut();
                if engine.is_sync_due() {
                    engine.start_sync()
                } else {
                    None
                }
            };
            let Some(task) = task else { continue };
            let disk = Arc::clone(&self.disk);
            let Ok(done) = tokio::task::spawn_blocking(move || task.run(&*disk)).await else {
                tracing::error!(
                    shard = self.index,
                    "the thread that syncs the commit log failed"
                );
                continue;
            };
            match self.engine.borrow_mut().complete_sync(done) {
                Ok(position) => {
                    let mut unsynced = self.unsynced.borrow_mut();
                    let later = unsynced
                        .iter()
                        .position(|waiter| waiter.position > position)
                        .unwrap_or(unsynced.len());
                    finish(unsynced.drain(..later).collect(), &Ok(()));
                }
                Err(error) => {
                    tracing::error!(shard = self.index, %error, "the commit log cannot be synced");
                    let waiters = std::mem::take(&mut *self.unsynced.borrow_mut());
                    finish(
                        waiters,
                        &Err(LocalError::Refused(
                            error.to_string(),
                            FailureReason::Unknown,
                        )),
                    );
                }
            }
        }
    }

    async fn run_background(self: Rc<Self>) {
        loop {
            let task = self.engine.borrow_mut().next_task();
            match task {
                Some(task) => {
                    let (disk, shard) = (Arc::clone(&self.disk), Rc::clone(&self));
                    tokio::task::spawn_local(async move {
                        match tokio::task::spawn_blocking(move || task.run(&disk)).await {
                            Ok(output) => shard.engine.borrow_mut().complete(output),
                            Err(error) => {
                                tracing::error!(shard = shard.index, %error, "background work failed");
                            }
                        }
                        shard.work_wanted.notify_one();
                    });
                }
                None => {
                    // time alone makes some work due: an elapsed tick is no error
                    drop(tokio::time::timeout(TICK, self.work_wanted.notified()).await);
                }
            }
        }
    }
}

fn finish(waiters: Vec<Waiter>, result: &Result<(), LocalError>) {
    for waiter in waiters {
        // the request may have been given up
        drop(waiter.done.send(result.clone()));
    }
}

/// The node's clock with stamps that never repeat on one thread.
pub(crate) struct Stamps {
    clock: Arc<dyn Clock>,
    last: Cell<i64>,
}

impl Stamps {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            last: Cell::new(0),
        }
    }

    /// Microseconds since 1970, greater than ever before.
    pub(crate) fn next(&self) -> i64 {
        let stamp = self.clock.wall_micros().max(self.last.get() + 1);
        self.last.set(stamp);
        stamp
    }
}
