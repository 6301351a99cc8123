//! Reads the rows of one partition that a filter asks for, forward or in reverse.
//!
//! Range deletions that are open where a slice starts or ends are given bounds at the slice's own,
//! as Cassandra's `AbstractSSTableIterator` and its BTI subclasses do.

use crate::big::{ListedBlock, block_at, blocks_up_to};
use crate::data::DataCursor;
use crate::error::Result;
use crate::index::{BlocksDescending, RowBlock, clustering_bytes};
use crate::reader::SsTableReader;
use helenus_rows::clustering::compare_prefixes;
use helenus_rows::codec::unfiltered;
use helenus_rows::{
    ClusteringBound, ClusteringFilter, DeletionTime, PrefixKind, RangeTombstoneMarker, Slice,
    Unfiltered,
};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};

/// The slices of a filter in the order in which they are read.
pub(crate) fn slices_of(filter: &ClusteringFilter) -> VecDeque<Slice> {
    let mut slices: VecDeque<Slice> = match filter {
        ClusteringFilter::Slices { slices, .. } => slices.iter().cloned().collect(),
        ClusteringFilter::Names { clusterings, .. } => clusterings
            .iter()
            .map(|clustering| Slice {
                start: ClusteringBound {
                    kind: PrefixKind::InclusiveStart,
                    values: clustering.0.clone(),
                },
                end: ClusteringBound {
                    kind: PrefixKind::InclusiveEnd,
                    values: clustering.0.clone(),
                },
            })
            .collect(),
    };
    if filter.is_reversed() {
        slices.make_contiguous().reverse();
    }
    slices
}

fn opening(bound: &ClusteringBound, deletion: DeletionTime) -> Unfiltered {
    Unfiltered::Marker(RangeTombstoneMarker {
        bound: bound.clone(),
        end: None,
        start: Some(deletion),
    })
}

fn closing(bound: &ClusteringBound, deletion: DeletionTime) -> Unfiltered {
    Unfiltered::Marker(RangeTombstoneMarker {
        bound: bound.clone(),
        end: Some(deletion),
        start: None,
    })
}

/// How blocks of a partition's rows are found.
#[derive(Clone)]
pub(crate) enum RowIndex {
    /// There is one block, or the rows are read from the start.
    None,
    /// A trie of Rows.db with this root.
    Trie(u64),
    /// A list of Index.db.
    List(Arc<Vec<ListedBlock>>),
}

/// Blocks of rows in descending order.
enum Blocks {
    Trie(BlocksDescending),
    List {
        blocks: Arc<Vec<ListedBlock>>,
        left: usize,
    },
}

impl Blocks {
    fn next(&mut self, reader: &SsTableReader) -> Result<Option<RowBlock>> {
        match self {
            Self::Trie(trie) => trie.next(reader.rows_file()?),
            Self::List { blocks, left } => {
                let Some(at) = left.checked_sub(1) else {
                    return Ok(None);
                };
                *left = at;
                Ok(block_at(blocks, at))
            }
        }
    }
}

/// Where a partition's rows are.
#[derive(Clone)]
pub(crate) struct RowsPlace {
    pub(crate) reader: Arc<SsTableReader>,
    /// Behind the static row.
    pub(crate) cursor: DataCursor,
    /// Start of the partition.
    pub(crate) start: u64,
    /// Its row index.
    pub(crate) index: RowIndex,
    /// Told where the partition ends once that is known; 0 before.
    pub(crate) end: Arc<AtomicU64>,
}

impl RowsPlace {
    fn read(&mut self) -> Result<Option<Unfiltered>> {
        let header = self.reader.header();
        let one = self
            .cursor
            .decode(|reader| unfiltered::decode_one(reader, header))?;
        if one.is_none() {
            self.end
                .store(self.cursor.position(), AtomicOrdering::Relaxed);
        }
        Ok(one)
    }

    /// Where the partition ends, passing over its rows.
    pub(crate) fn find_end(mut self) -> Result<u64> {
        if let Some(block) = self.block_of(&ClusteringBound::top())? {
            self.cursor.seek(self.start + block.offset);
        }
        while self.read()?.is_some() {}
        Ok(self.cursor.position())
    }

    fn against(&self, one: &Unfiltered, bound: &ClusteringBound) -> Ordering {
        let (kind, values) = one.prefix();
        compare_prefixes(
            kind,
            values,
            bound.kind,
            &bound.values,
            self.reader.table().clustering(),
        )
    }

    /// The blocks from the one in which a bound falls; `None` without an index.
    fn blocks_from(&self, bound: &ClusteringBound) -> Result<Option<Blocks>> {
        let columns = self.reader.table().clustering();
        Ok(match &self.index {
            RowIndex::None => None,
            RowIndex::Trie(root) => {
                let bytes = clustering_bytes(bound.kind, &bound.values, columns);
                let version = self.reader.header().version;
                Some(Blocks::Trie(BlocksDescending::new(
                    self.reader.rows_file()?,
                    *root,
                    &bytes,
                    version,
                )?))
            }
            RowIndex::List(blocks) => Some(Blocks::List {
                blocks: Arc::clone(blocks),
                left: blocks_up_to(blocks, bound, columns),
            }),
        })
    }

    fn block_of(&self, bound: &ClusteringBound) -> Result<Option<RowBlock>> {
        self.blocks_from(bound)?
            .map_or(Ok(None), |mut blocks| blocks.next(&self.reader))
    }
}

fn track(one: &Unfiltered, open: &mut Option<DeletionTime>) {
    if let Unfiltered::Marker(marker) = one {
        *open = marker.start;
    }
}

fn is_empty_row(one: &Unfiltered) -> bool {
    one.as_row().is_some_and(helenus_rows::Row::is_empty)
}

/// Rows in clustering order.
pub(crate) struct ForwardRows {
    place: RowsPlace,
    slices: VecDeque<Slice>,
    current: Option<Slice>,
    /// Read but not yet given, with its position.
    pending: Option<(u64, Unfiltered)>,
    open: Option<DeletionTime>,
    ended: bool,
}

impl ForwardRows {
    pub(crate) fn new(place: RowsPlace, slices: VecDeque<Slice>) -> Self {
        Self {
            place,
            slices,
            current: None,
            pending: None,
            open: None,
            ended: false,
        }
    }

    fn peek(&mut self) -> Result<Option<&Unfiltered>> {
        if self.pending.is_none() && !self.ended {
            let position = self.place.cursor.position();
            match self.place.read()? {
                Some(one) => self.pending = Some((position, one)),
                None => self.ended = true,
            }
        }
        Ok(self.pending.as_ref().map(|(_, one)| one))
    }

    /// Goes to the first row of a slice; the marker that opens there, if any.
    fn start_slice(&mut self, slice: &Slice) -> Result<Option<Unfiltered>> {
        if slice.start.values.is_empty() {
            return Ok(None);
        }
        if let Some(block) = self.place.block_of(&slice.start)? {
            let target = self.place.start + block.offset;
            let here = self
                .pending
                .as_ref()
                .map_or(self.place.cursor.position(), |(position, _)| *position);
            if target > here && !self.ended {
                self.pending = None;
                self.open = block.open;
                self.place.cursor.seek(target);
            }
        }
        while self.peek()?.is_some() {
            let Some((position, one)) = self.pending.take() else {
                break;
            };
            if self.place.against(&one, &slice.start).is_gt() {
                self.pending = Some((position, one));
                break;
            }
            track(&one, &mut self.open);
        }
        Ok(self.open.map(|deletion| opening(&slice.start, deletion)))
    }

    fn step(&mut self) -> Result<Option<Unfiltered>> {
        loop {
            let Some(slice) = self.current.clone() else {
                let Some(slice) = self.slices.pop_front() else {
                    return Ok(None);
                };
                let first = self.start_slice(&slice)?;
                self.current = Some(slice);
                if first.is_some() {
                    return Ok(first);
                }
                continue;
            };
            let whole = slice.end.values.is_empty();
            self.peek()?;
            let within = self
                .pending
                .as_ref()
                .is_some_and(|(_, one)| whole || self.place.against(one, &slice.end).is_lt());
            if within {
                let Some((_, one)) = self.pending.take() else {
                    continue;
                };
                track(&one, &mut self.open);
                if is_empty_row(&one) {
                    continue;
                }
                return Ok(Some(one));
            }
            self.current = None;
            if let Some(deletion) = self.open.filter(|_| !whole) {
                return Ok(Some(closing(&slice.end, deletion)));
            }
        }
    }
}

impl Iterator for ForwardRows {
    type Item = Result<Unfiltered>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.step().transpose();
        if matches!(result, Some(Err(_))) {
            self.slices.clear();
            self.current = None;
        }
        result
    }
}

/// Rows in reverse clustering order, a block at a time.
pub(crate) struct ReversedRows {
    place: RowsPlace,
    rows_start: u64,
    slices: VecDeque<Slice>,
    slice: Option<Slice>,
    blocks: Option<Blocks>,
    /// End of the block before which the next one ends.
    block_start: u64,
    ready: Vec<Unfiltered>,
    opening: Option<Unfiltered>,
    reached_start: bool,
}

impl ReversedRows {
    pub(crate) fn new(place: RowsPlace, slices: VecDeque<Slice>) -> Self {
        Self {
            rows_start: place.cursor.position(),
            place,
            slices,
            slice: None,
            blocks: None,
            block_start: u64::MAX,
            ready: Vec::new(),
            opening: None,
            reached_start: true,
        }
    }

    /// Reads the rows of a slice from `start` to before `stop`, with what is open at `start`.
    fn load(
        &mut self,
        slice: &Slice,
        start: u64,
        open: Option<DeletionTime>,
        stop: u64,
        last: bool,
    ) -> Result<()> {
        let mut open = open;
        self.place.cursor.seek(start);
        self.reached_start = false;
        self.opening = None;
        let bounded = !slice.start.values.is_empty();
        let ends = last && !slice.end.values.is_empty();
        let mut in_slice = !bounded;
        let mut begun = false;
        while self.place.cursor.position() < stop {
            let Some(one) = self.place.read()? else { break };
            if !in_slice && self.place.against(&one, &slice.start).is_le() {
                self.reached_start = true;
                track(&one, &mut open);
                continue;
            }
            in_slice = true;
            if !begun {
                begun = true;
                self.opening = open.map(|deletion| opening(&slice.start, deletion));
            }
            if ends && !self.place.against(&one, &slice.end).is_lt() {
                break;
            }
            track(&one, &mut open);
            if !is_empty_row(&one) {
                self.ready.push(one);
            }
        }
        if !begun {
            self.opening = open.map(|deletion| opening(&slice.start, deletion));
        }
        if let Some(deletion) = open.filter(|_| ends) {
            self.ready.push(closing(&slice.end, deletion));
        }
        Ok(())
    }

    fn start_slice(&mut self, slice: &Slice) -> Result<()> {
        self.reached_start = true;
        self.blocks = self.place.blocks_from(&slice.end)?;
        if self.blocks.is_none() {
            return self.load(slice, self.rows_start, None, u64::MAX, true);
        }
        self.block_start = u64::MAX;
        self.next_block(slice, true).map(|_| ())
    }

    /// Loads the next lower block; `false` when there is none.
    fn next_block(&mut self, slice: &Slice, last: bool) -> Result<bool> {
        let reader = &self.place.reader;
        let Some(block) = self
            .blocks
            .as_mut()
            .map_or(Ok(None), |blocks| blocks.next(reader))?
        else {
            return Ok(false);
        };
        let start = self.place.start + block.offset;
        self.load(slice, start, block.open, self.block_start, last)?;
        self.block_start = start;
        Ok(true)
    }

    fn step(&mut self) -> Result<Option<Unfiltered>> {
        loop {
            if let Some(one) = self.ready.pop() {
                return Ok(Some(one));
            }
            let Some(slice) = self.slice.clone() else {
                let Some(slice) = self.slices.pop_front() else {
                    return Ok(None);
                };
                self.start_slice(&slice)?;
                self.slice = Some(slice);
                continue;
            };
            if self.blocks.is_some() && !self.reached_start && self.next_block(&slice, false)? {
                continue;
            }
            self.slice = None;
            self.blocks = None;
            if let Some(one) = self.opening.take() {
                return Ok(Some(one));
            }
        }
    }
}

impl Iterator for ReversedRows {
    type Item = Result<Unfiltered>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.step().transpose();
        if matches!(result, Some(Err(_))) {
            self.slices.clear();
            self.slice = None;
            self.ready.clear();
            self.opening = None;
        }
        result
    }
}
