//! The driver: asks replicas, waits for as many answers as the level needs, repairs, hints.

use crate::consistency::{Factors, ReadTargets, read_targets, write_needs};
use crate::error::{CoordinatorError, FailureReason, WriteKind};
use crate::replicas::{
    Replica, ReplicaFailure, ReplicaRequest, ReplicaResponse, ReplicaSet, Replicas,
};
use crate::resolve::{live_rows, resolve};
use crate::speculation::{Speculation, SpeculativeRetry};
use crate::tally::{Progress, Tally};
use futures::stream::{FuturesUnordered, StreamExt};
use helenus_rows::{DataRange, Mutation, Partition, PartitionPosition, ReadCommand, ReadKind};
use helenus_schema::Keyspace;
use helenus_types::{ConsistencyLevel, Token};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time limits, named as in cassandra.yaml.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are Cassandra's")]
pub struct CoordinatorSettings {
    pub read_request_timeout: Duration,
    pub range_request_timeout: Duration,
    pub write_request_timeout: Duration,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        Self {
            read_request_timeout: Duration::from_secs(5),
            range_request_timeout: Duration::from_secs(10),
            write_request_timeout: Duration::from_secs(2),
        }
    }
}

/// How often a read is asked again because merging left too few rows; each time for twice as many.
const MAX_SHORT_READ_ROUNDS: u32 = 16;

/// Coordinates requests of one shard's clients.
#[derive(Debug)]
pub struct Coordinator<R> {
    replicas: Rc<R>,
    settings: CoordinatorSettings,
    speculation: Rc<RefCell<Speculation>>,
}

impl<R> Clone for Coordinator<R> {
    fn clone(&self) -> Self {
        Self {
            replicas: Rc::clone(&self.replicas),
            settings: self.settings.clone(),
            speculation: Rc::clone(&self.speculation),
        }
    }
}

impl<R: Replicas + 'static> Coordinator<R> {
    /// A coordinator over these replicas.
    pub fn new(replicas: Rc<R>, settings: CoordinatorSettings) -> Self {
        Self {
            replicas,
            settings,
            speculation: Rc::default(),
        }
    }

    fn factors(&self, keyspace: &Keyspace) -> Factors {
        Factors {
            local: self.replicas.datacenter(),
            per_datacenter: self.replicas.replication_factors(keyspace),
        }
    }

    /// Applies writes, each on its replicas, all at the same level. The first failure is returned
    /// after every write was sent.
    pub async fn write_all(
        &self,
        keyspace_of: impl Fn(&str) -> Option<Arc<Keyspace>>,
        mutations: Vec<Mutation>,
        level: ConsistencyLevel,
        kind: WriteKind,
    ) -> Result<(), CoordinatorError> {
        let mut writes = FuturesUnordered::new();
        for mutation in mutations {
            let keyspace = keyspace_of(&mutation.keyspace).ok_or_else(|| {
                CoordinatorError::Invalid(format!(
                    "Keyspace '{}' does not exist",
                    mutation.keyspace
                ))
            })?;
            writes.push(async move { self.write(&keyspace, mutation, level, kind).await });
        }
        let mut outcome = Ok(());
        while let Some(result) = writes.next().await {
            outcome = outcome.and(result);
        }
        outcome
    }

    /// Applies one write on its replicas.
    pub async fn write(
        &self,
        keyspace: &Keyspace,
        mutation: Mutation,
        level: ConsistencyLevel,
        kind: WriteKind,
    ) -> Result<(), CoordinatorError> {
        let set = self.replicas.replicas(keyspace, mutation.key.token);
        let needs = write_needs(level, &self.factors(keyspace), &set)?;
        let mutation = Rc::new(mutation);
        let mut tally = Tally::new(needs);
        let requests = FuturesUnordered::new();
        let mut hinted = false;
        for replica in set.natural.iter().chain(&set.pending) {
            if replica.up {
                tally.asked(&replica.datacenter);
                requests.push(self.ask(
                    replica,
                    ReplicaRequest::Write(Rc::clone(&mutation)),
                    self.settings.write_request_timeout,
                ));
            } else {
                hinted |= self.replicas.hint(replica, &mutation);
            }
        }
        if level == ConsistencyLevel::Any && hinted {
            self.finish_in_background(requests, mutation);
            return Ok(());
        }
        self.await_writes(requests, mutation, tally, level, kind)
            .await
    }

    async fn await_writes(
        &self,
        mut requests: FuturesUnordered<impl Future<Output = (Replica, Answer)> + 'static>,
        mutation: Rc<Mutation>,
        mut tally: Tally,
        level: ConsistencyLevel,
        kind: WriteKind,
    ) -> Result<(), CoordinatorError> {
        loop {
            match tally.progress() {
                Progress::Reached => {
                    self.finish_in_background(requests, mutation);
                    return Ok(());
                }
                Progress::Hopeless => {
                    self.finish_in_background(requests, mutation);
                    return Err(write_error(&tally, level, kind));
                }
                Progress::Waiting => {}
            }
            match requests.next().await {
                Some((replica, Ok(_))) => tally.answered(&replica.datacenter),
                Some((replica, Err(ReplicaFailure(reason)))) => {
                    tally.failed(&replica.datacenter, replica.endpoint, reason);
                    self.replicas.hint(&replica, &mutation);
                }
                None => return Err(write_error(&tally, level, kind)),
            }
        }
    }

    /// Replicas that answer after the client was answered; those that fail get hints (O3).
    fn finish_in_background(
        &self,
        mut requests: FuturesUnordered<impl Future<Output = (Replica, Answer)> + 'static>,
        mutation: Rc<Mutation>,
    ) {
        if requests.is_empty() {
            return;
        }
        let replicas = Rc::clone(&self.replicas);
        tokio::task::spawn_local(async move {
            while let Some((replica, answer)) = requests.next().await {
                if answer.is_err() {
                    replicas.hint(&replica, &mutation);
                }
            }
        });
    }

    fn ask(
        &self,
        replica: &Replica,
        request: ReplicaRequest,
        timeout: Duration,
    ) -> impl Future<Output = (Replica, Answer)> + use<R> {
        let answer = self.replicas.request(replica, request, timeout);
        let replica = replica.clone();
        async move { (replica, answer.await) }
    }

    /// Reads one partition or a range of them, in ring order, up to the command's limits.
    pub async fn read(
        &self,
        keyspace: &Keyspace,
        command: ReadCommand,
        level: ConsistencyLevel,
    ) -> Result<Vec<Partition>, CoordinatorError> {
        match &command.kind {
            ReadKind::Partition { key, .. } => {
                let set = self.replicas.replicas(keyspace, key.token);
                let targets = read_targets(level, &self.factors(keyspace), &set)?;
                self.read_from(targets, command, level, self.settings.read_request_timeout)
                    .await
            }
            ReadKind::Range(range) => {
                let range = range.clone();
                self.read_range(keyspace, command, range, level).await
            }
        }
    }

    async fn read_range(
        &self,
        keyspace: &Keyspace,
        command: ReadCommand,
        range: DataRange,
        level: ConsistencyLevel,
    ) -> Result<Vec<Partition>, CoordinatorError> {
        let mut found: Vec<Partition> = Vec::new();
        for (sub_range, targets) in self.plan_range(keyspace, &range, level)? {
            let mut part = command.clone();
            let counted = live_rows(&found, &command.limits, command.now_in_seconds);
            if command.limits.rows != u32::MAX {
                let left = u64::from(command.limits.rows).saturating_sub(counted);
                if left == 0 {
                    break;
                }
                part.limits.rows = u32::try_from(left).unwrap_or(u32::MAX);
            }
            if sub_range.start != range.start {
                part.limits.first_partition_returned = 0;
            }
            part.kind = ReadKind::Range(sub_range);
            found.extend(
                self.read_from(targets, part, level, self.settings.range_request_timeout)
                    .await?,
            );
        }
        Ok(found)
    }

    /// Cuts a range at the ring's tokens and joins neighbours that the same replicas can answer.
    fn plan_range(
        &self,
        keyspace: &Keyspace,
        range: &DataRange,
        level: ConsistencyLevel,
    ) -> Result<Vec<(DataRange, ReadTargets)>, CoordinatorError> {
        let factors = self.factors(keyspace);
        let mut plan: Vec<(DataRange, ReplicaSet, ReadTargets)> = Vec::new();
        for (after, to) in self.replicas.ranges(keyspace) {
            let Some(part) = intersect(range, after, to) else {
                continue;
            };
            let set = self.replicas.replicas(keyspace, to);
            if let Some((last, last_set, _)) = plan.last_mut()
                && same_members(last_set, &set)
            {
                last.end = part.end;
                continue;
            }
            let targets = read_targets(level, &factors, &set)?;
            plan.push((part, set, targets));
        }
        Ok(plan
            .into_iter()
            .map(|(part, _, targets)| (part, targets))
            .collect())
    }

    async fn read_from(
        &self,
        targets: ReadTargets,
        command: ReadCommand,
        level: ConsistencyLevel,
        timeout: Duration,
    ) -> Result<Vec<Partition>, CoordinatorError> {
        let command = Rc::new(command);
        // digests pay for single partitions only, as in Cassandra: ranges ask everyone for data
        let digests = matches!(command.kind, ReadKind::Partition { .. });
        let answers = self
            .ask_enough(targets, &command, digests, level, timeout)
            .await?;
        let is_data =
            |(_, answer): &(Replica, ReplicaResponse)| matches!(answer, ReplicaResponse::Data(_));
        let agreed = match &answers[..] {
            [only] => is_data(only),
            several => digests && several.iter().any(is_data) && digests_agree(&command, several),
        };
        if agreed {
            let data = answers.into_iter().find_map(|(_, answer)| match answer {
                ReplicaResponse::Data(data) => Some(data),
                ReplicaResponse::Digest(_) | ReplicaResponse::Done => None,
            });
            return data.ok_or_else(|| CoordinatorError::Server("no replica returned data".into()));
        }
        self.read_and_repair(command, answers, level, timeout).await
    }

    /// Asks the chosen replicas, and spares when one fails or is slow, until as many have answered
    /// as were chosen.
    async fn ask_enough(
        &self,
        targets: ReadTargets,
        command: &Rc<ReadCommand>,
        digests: bool,
        level: ConsistencyLevel,
        timeout: Duration,
    ) -> Result<Vec<(Replica, ReplicaResponse)>, CoordinatorError> {
        let required = targets.chosen.len();
        let mut spares: VecDeque<Replica> = targets.spares.into();
        let mut outstanding: FuturesUnordered<_> = targets
            .chosen
            .iter()
            .enumerate()
            .map(|(at, replica)| self.ask(replica, request_of(command, at > 0 && digests), timeout))
            .collect();
        let retry = retry_of(command, &spares);
        self.speculation.borrow_mut().begin();
        let delay = self
            .speculation
            .borrow()
            .delay(retry)
            .filter(|_| !spares.is_empty());
        let started = tokio::time::Instant::now();
        let mut gathered = Gathered {
            answers: Vec::with_capacity(required),
            failures: Vec::new(),
            required,
            level,
        };
        let mut may_speculate = delay.is_some();
        while gathered.answers.len() < required {
            let next = tokio::select! {
                biased;
                next = outstanding.next() => next,
                () = tokio::time::sleep_until(started + delay.unwrap_or_default()), if may_speculate => {
                    may_speculate = false;
                    if self.speculation.borrow_mut().spend(retry)
                        && let Some(spare) = spares.pop_front()
                    {
                        outstanding.push(self.ask(&spare, request_of(command, false), timeout));
                    }
                    continue;
                }
            };
            match next {
                Some((replica, Ok(response))) => {
                    self.speculation.borrow_mut().record(started.elapsed());
                    gathered.answers.push((replica, response));
                }
                Some((replica, Err(ReplicaFailure(reason)))) => {
                    gathered.failures.push((replica.endpoint, reason));
                    // a replica that is gone is replaced at once; one that was too slow has used up the time
                    if reason != FailureReason::Timeout
                        && let Some(spare) = spares.pop_front()
                    {
                        outstanding.push(self.ask(&spare, request_of(command, false), timeout));
                    }
                    if gathered.answers.len() + outstanding.len() < required {
                        return Err(gathered.error());
                    }
                }
                None => return Err(gathered.error()),
            }
        }
        Ok(gathered.answers)
    }

    /// Digests differ, or everyone returned data: merge, repair whoever is behind, and ask again
    /// when a replica's limit left the merged answer short.
    async fn read_and_repair(
        &self,
        command: Rc<ReadCommand>,
        first: Vec<(Replica, ReplicaResponse)>,
        level: ConsistencyLevel,
        timeout: Duration,
    ) -> Result<Vec<Partition>, CoordinatorError> {
        let all_data = first
            .iter()
            .all(|(_, answer)| matches!(answer, ReplicaResponse::Data(_)));
        let chosen: Vec<Replica> = first.iter().map(|(replica, _)| replica.clone()).collect();
        let mut answers = all_data.then_some(first);
        let mut asked = (*command).clone();
        for round in 0..=MAX_SHORT_READ_ROUNDS {
            let data = if let Some(answers) = answers.take() {
                answers
            } else {
                let targets = ReadTargets {
                    chosen: chosen.clone(),
                    spares: Vec::new(),
                };
                self.ask_enough(targets, &Rc::new(asked.clone()), false, level, timeout)
                    .await?
            };
            let (replicas, partitions): (Vec<Replica>, Vec<Vec<Partition>>) = data
                .into_iter()
                .filter_map(|(replica, answer)| match answer {
                    ReplicaResponse::Data(partitions) => Some((replica, partitions)),
                    _ => None,
                })
                .unzip();
            let resolved = resolve(&asked, &partitions);
            self.repair(&replicas, resolved.repairs, level, timeout)
                .await?;
            if !resolved.short {
                return Ok(resolved.partitions);
            }
            tracing::debug!(round, table = %command.table.name, "short read: asking replicas for more rows");
            asked.limits.rows = asked.limits.rows.saturating_mul(2);
        }
        Err(CoordinatorError::Server(
            "replicas disagree on too many rows: run a repair of this table".into(),
        ))
    }

    async fn repair(
        &self,
        replicas: &[Replica],
        repairs: Vec<Vec<Mutation>>,
        level: ConsistencyLevel,
        timeout: Duration,
    ) -> Result<(), CoordinatorError> {
        let required = replicas.len();
        let mut requests: FuturesUnordered<_> = replicas
            .iter()
            .zip(repairs)
            .flat_map(|(replica, mutations)| {
                mutations
                    .into_iter()
                    .map(move |mutation| (replica, mutation))
            })
            .map(|(replica, mutation)| {
                self.ask(
                    replica,
                    ReplicaRequest::ReadRepair(Rc::new(mutation)),
                    timeout,
                )
            })
            .collect();
        while let Some((replica, answer)) = requests.next().await {
            if let Err(ReplicaFailure(reason)) = answer {
                tracing::debug!(endpoint = %replica.endpoint, ?reason, "read repair was not acknowledged");
                return Err(CoordinatorError::ReadTimeout {
                    level,
                    received: required - 1,
                    required,
                    data_present: true,
                });
            }
        }
        Ok(())
    }
}

type Answer = Result<ReplicaResponse, ReplicaFailure>;

fn write_error(tally: &Tally, level: ConsistencyLevel, kind: WriteKind) -> CoordinatorError {
    let (received, required, failures) = (tally.received(), tally.required(), tally.refusals());
    if failures.is_empty() {
        CoordinatorError::WriteTimeout {
            level,
            received,
            required,
            kind,
        }
    } else {
        CoordinatorError::WriteFailure {
            level,
            received,
            required,
            kind,
            failures,
        }
    }
}

/// Without a spare nobody could be asked: the table's option need not be read.
fn retry_of(command: &ReadCommand, spares: &VecDeque<Replica>) -> SpeculativeRetry {
    if spares.is_empty() {
        SpeculativeRetry::Never
    } else {
        SpeculativeRetry::parse(&command.table.params.speculative_retry)
    }
}

fn request_of(command: &Rc<ReadCommand>, digest: bool) -> ReplicaRequest {
    let command = Rc::clone(command);
    if digest {
        ReplicaRequest::Digest(command)
    } else {
        ReplicaRequest::Read(command)
    }
}

/// Answers to one read so far.
struct Gathered {
    answers: Vec<(Replica, ReplicaResponse)>,
    failures: Vec<(helenus_types::Endpoint, FailureReason)>,
    required: usize,
    level: ConsistencyLevel,
}

impl Gathered {
    fn error(self) -> CoordinatorError {
        let Self {
            answers,
            failures,
            required,
            level,
        } = self;
        let received = answers.len();
        let data_present = answers
            .iter()
            .any(|(_, answer)| matches!(answer, ReplicaResponse::Data(_)));
        if failures
            .iter()
            .all(|(_, reason)| *reason == FailureReason::Timeout)
        {
            CoordinatorError::ReadTimeout {
                level,
                received,
                required,
                data_present,
            }
        } else {
            CoordinatorError::ReadFailure {
                level,
                received,
                required,
                data_present,
                failures,
            }
        }
    }
}

fn digests_agree(command: &ReadCommand, answers: &[(Replica, ReplicaResponse)]) -> bool {
    let mut digests = answers.iter().map(|(_, answer)| match answer {
        ReplicaResponse::Digest(digest) => *digest,
        ReplicaResponse::Data(data) => helenus_rows::digest::of_response(command, data),
        ReplicaResponse::Done => [0; 16],
    });
    let first = digests.next();
    digests.all(|digest| Some(digest) == first)
}

fn same_members(a: &ReplicaSet, b: &ReplicaSet) -> bool {
    let members = |set: &ReplicaSet| {
        let mut endpoints: Vec<_> = set.natural.iter().map(|replica| replica.endpoint).collect();
        endpoints.sort_unstable();
        endpoints
    };
    members(a) == members(b)
}

/// Places of range ends in ring order; `end` says that the minimum token means the end of the ring.
fn place(position: &PartitionPosition, end: bool) -> (bool, Token, u8, &[u8]) {
    match position {
        PartitionPosition::MinOf(token) => (end && *token == Token::MINIMUM, *token, 0, &[]),
        PartitionPosition::Key { key, .. } => (false, key.token, 1, &key.key),
        PartitionPosition::MaxOf(token) => (false, *token, 2, &[]),
    }
}

/// The part of a range whose tokens are after `after`, up to and including `to`.
fn intersect(range: &DataRange, after: Token, to: Token) -> Option<DataRange> {
    let ring_start = if after == Token::MINIMUM {
        PartitionPosition::MinOf(after)
    } else {
        PartitionPosition::MaxOf(after)
    };
    let ring_end = if to == Token::MINIMUM {
        PartitionPosition::MinOf(to)
    } else {
        PartitionPosition::MaxOf(to)
    };
    let mut part = range.clone();
    if place(&ring_start, false).cmp(&place(&range.start, false)) == Ordering::Greater {
        part.start = ring_start;
        part.resume_after = None;
    }
    if place(&ring_end, true).cmp(&place(&range.end, true)) == Ordering::Less {
        part.end = ring_end;
    }
    let (start, end) = (place(&part.start, false), place(&part.end, true));
    let single_key = matches!(
        (&part.start, &part.end),
        (
            PartitionPosition::Key {
                inclusive: true,
                ..
            },
            PartitionPosition::Key {
                inclusive: true,
                ..
            }
        )
    );
    (start < end || (start == end && single_key)).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_rows::ClusteringFilter;

    #[test]
    fn ranges_are_cut_at_ring_tokens() {
        let all = DataRange::all(ClusteringFilter::all());
        let cut = intersect(&all, Token(5), Token(9)).unwrap();
        assert_eq!(
            (cut.start, cut.end),
            (
                PartitionPosition::MaxOf(Token(5)),
                PartitionPosition::MaxOf(Token(9))
            )
        );
        let last = intersect(&all, Token(9), Token::MINIMUM).unwrap();
        assert_eq!(
            (last.start, last.end),
            (
                PartitionPosition::MaxOf(Token(9)),
                PartitionPosition::MinOf(Token::MINIMUM)
            )
        );
        let tail = DataRange {
            start: PartitionPosition::MaxOf(Token(20)),
            ..all
        };
        assert_eq!(intersect(&tail, Token(5), Token(9)), None);
        assert!(intersect(&tail, Token(9), Token::MINIMUM).is_some());
    }
}
