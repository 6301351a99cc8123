//! Reads a trie on disk, a page at a time.

use super::PAGE_SIZE;
use super::node::NodeView;
use crate::error::{Result, corrupt};
use crate::file::FileReader;
use bytes::Bytes;

/// The bytes that are read around a node: its page and the next, for nodes of writers that do not
/// keep them within a page.
const WINDOW: usize = 2 * 4096;

/// What stood at a node: its payload flags and the bytes from its payload on.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Payload flags, 1 to 15.
    pub bits: u8,
    /// The payload and what follows it.
    pub bytes: Bytes,
    /// Position of the node in the file.
    pub position: u64,
}

/// Where a walk along a key ended.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    /// The payload of the last node, if it has one.
    pub found: Option<Found>,
    /// The key was used up.
    pub whole_key: bool,
    /// The last node has children.
    pub has_children: bool,
    /// The nearest branch with greater keys.
    pub greater: Option<u64>,
}

/// A cursor in a trie.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    file: &'a FileReader,
    window: Bytes,
    window_start: u64,
    position: u64,
    node: Bytes,
    view: NodeView,
}

impl<'a> Walker<'a> {
    /// A cursor at the node at `root`.
    pub(crate) fn new(file: &'a FileReader, root: u64) -> Result<Self> {
        let empty = Bytes::from_static(&[0]);
        let view = NodeView::parse(&empty).ok_or_else(|| corrupt(&file.path, root, "no node"))?;
        let mut walker = Self {
            file,
            window: Bytes::new(),
            window_start: 0,
            position: root,
            node: empty,
            view,
        };
        walker.go(root)?;
        Ok(walker)
    }

    fn error(&self, reason: &str) -> crate::SsTableError {
        corrupt(&self.file.path, self.position, reason)
    }

    fn go(&mut self, position: u64) -> Result<()> {
        self.position = position;
        let page = position - position % PAGE_SIZE;
        if page != self.window_start || self.window.is_empty() {
            self.window = self.file.read_up_to(page, WINDOW)?;
            self.window_start = page;
        }
        let offset = usize::try_from(position - page).unwrap_or(usize::MAX);
        if offset >= self.window.len() {
            return Err(self.error("an index node is beyond the end of the file"));
        }
        self.node = self.window.slice(offset..);
        self.view =
            NodeView::parse(&self.node).ok_or_else(|| self.error("an index node is cut off"))?;
        Ok(())
    }

    fn child(&self, index: usize) -> Option<u64> {
        self.position
            .checked_sub(self.view.distance(&self.node, index)?)
    }

    fn child_from(&self, start: usize) -> Option<u64> {
        (start..self.view.range).find_map(|at| self.child(at))
    }

    fn found(&self) -> Option<Found> {
        (self.view.payload_bits > 0).then(|| Found {
            bits: self.view.payload_bits,
            bytes: self.node.slice(self.view.payload_at..),
            position: self.position,
        })
    }

    /// Walks along a key from the root as far as there are nodes.
    pub(crate) fn follow(&mut self, root: u64, key: &[u8]) -> Result<Followed> {
        self.go(root)?;
        let mut greater = None;
        let mut rest = key.iter().copied();
        loop {
            let byte = rest.next();
            match self.view.search(&self.node, byte) {
                Ok(at) => {
                    greater = self.child_from(at + 1).or(greater);
                    let next = self
                        .child(at)
                        .ok_or_else(|| self.error("an index pointer leaves the file"))?;
                    self.go(next)?;
                }
                Err(at) => {
                    return Ok(Followed {
                        found: self.found(),
                        whole_key: byte.is_none(),
                        has_children: self.view.range > 0,
                        greater: self.child_from(at).or(greater),
                    });
                }
            }
        }
    }

    /// The least key's payload in the branch at `position`.
    pub(crate) fn least(&mut self, position: u64) -> Result<Found> {
        self.go(position)?;
        loop {
            if let Some(found) = self.found() {
                return Ok(found);
            }
            let next = self
                .child_from(0)
                .ok_or_else(|| self.error("an index leaf has no payload"))?;
            self.go(next)?;
        }
    }
}

/// Payloads of a trie's keys in descending order, from the greatest key not above a bound.
#[derive(Debug)]
pub(crate) struct Descending {
    stack: Vec<(u64, usize)>,
}

impl Descending {
    /// Starts at the greatest key that is not above `end`.
    pub(crate) fn new(walker: &mut Walker<'_>, root: u64, end: &[u8]) -> Result<Self> {
        let mut stack = Vec::new();
        walker.go(root)?;
        let mut rest = end.iter().copied();
        loop {
            let at = match walker.view.search(&walker.node, rest.next()) {
                Ok(at) => at,
                Err(at) => {
                    stack.push((walker.position, at));
                    return Ok(Self { stack });
                }
            };
            stack.push((walker.position, at));
            let next = walker
                .child(at)
                .ok_or_else(|| walker.error("an index pointer leaves the file"))?;
            walker.go(next)?;
        }
    }

    /// The next lower payload.
    pub(crate) fn next(&mut self, walker: &mut Walker<'_>) -> Result<Option<Found>> {
        while let Some((position, remaining)) = self.stack.pop() {
            walker.go(position)?;
            let lower = (0..remaining.min(walker.view.range))
                .rev()
                .find_map(|at| Some((at, walker.child(at)?)));
            if let Some((at, child)) = lower {
                self.stack.push((position, at));
                self.stack.push((child, usize::MAX));
            } else if let Some(found) = walker.found() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
