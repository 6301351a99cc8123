//! Writes a trie from keys in ascending order, page by page, in memory bounded by open branches.

use super::{PAGE_SIZE, node};
use crate::error::{Result, SsTableError};
use crate::file::FileWriter;

/// What a trie holds at a key.
pub(crate) trait Payload {
    /// Payload flags, 1 to 15.
    fn bits(&self) -> u8;
    /// Appends the payload.
    fn write(&self, out: &mut Vec<u8>);
    /// Its size in bytes.
    fn size(&self) -> usize {
        let mut out = Vec::new();
        self.write(&mut out);
        out.len()
    }
}

struct Node<P> {
    transition: u8,
    children: Vec<Node<P>>,
    payload: Option<P>,
    file_position: Option<u64>,
    branch_size: u64,
    own_size: u64,
    out_of_page_in_branch: bool,
    out_of_page_children: bool,
}

impl<P: Payload> Node<P> {
    fn new(transition: u8) -> Self {
        Self {
            transition,
            children: Vec::new(),
            payload: None,
            file_position: None,
            branch_size: 0,
            own_size: 0,
            out_of_page_in_branch: false,
            out_of_page_children: true,
        }
    }

    fn total(&self) -> u64 {
        self.branch_size + self.own_size
    }

    /// The largest distance to a child if this node were at `position`.
    fn distance(&self, position: u64) -> u64 {
        let unplaced = |child: &Self| self.branch_size.saturating_sub(child.branch_size);
        if !self.out_of_page_children {
            return self.children.first().map_or(0, unplaced);
        }
        let placed = self.children.iter().filter_map(|child| child.file_position);
        let placed = placed
            .map(|at| position.saturating_sub(at))
            .max()
            .unwrap_or(0);
        let first_unplaced = self
            .children
            .iter()
            .find(|child| child.file_position.is_none())
            .map_or(0, unplaced);
        placed.max(first_unplaced)
    }

    fn ordinal(&self, position: u64) -> u8 {
        let transitions: Vec<u8> = self.children.iter().map(|child| child.transition).collect();
        node::choose(
            &transitions,
            self.distance(position),
            self.payload.is_some(),
        )
    }

    fn size_at(&self, position: u64) -> u64 {
        let span = match (self.children.first(), self.children.last()) {
            (Some(first), Some(last)) => usize::from(last.transition - first.transition) + 1,
            _ => 0,
        };
        let payload = self.payload.as_ref().map_or(0, Payload::size);
        (node::size(self.ordinal(position), self.children.len(), span) + payload) as u64
    }

    fn finalize(&mut self, position: u64) {
        self.file_position = Some(position);
        self.branch_size = 0;
        self.own_size = 0;
        self.out_of_page_in_branch = false;
        self.out_of_page_children = false;
        self.children = Vec::new();
        self.payload = None;
    }

    /// Sizes anew a branch whose pointers out of the page may have grown.
    fn recalculate(&mut self, position: u64) -> u64 {
        if self.out_of_page_in_branch {
            let mut size = 0;
            for child in &mut self.children {
                size += child.recalculate(position + size);
            }
            self.branch_size = size;
        }
        if self.out_of_page_children || self.out_of_page_in_branch {
            self.own_size = self.size_at(position + self.branch_size);
        }
        self.total()
    }

    /// Writes what is not yet written of a branch; the node's position.
    fn write(&mut self, out: &mut FileWriter) -> Result<u64> {
        for child in &mut self.children {
            if child.file_position.is_none() {
                let position = child.write(out)?;
                child.file_position = Some(position);
            }
        }
        let position = out.position();
        let children: Vec<(u8, u64)> = self
            .children
            .iter()
            .map(|child| {
                (
                    child.transition,
                    position.saturating_sub(child.file_position.unwrap_or(position)),
                )
            })
            .collect();
        let transitions: Vec<u8> = children.iter().map(|child| child.0).collect();
        let farthest = children.iter().map(|child| child.1).max().unwrap_or(0);
        // The layout was sized for at least this distance; a node is never larger than planned.
        let planned = self.ordinal(position);
        let fits = self.distance(position) >= farthest;
        let ordinal = if fits {
            planned
        } else {
            node::choose(&transitions, farthest, self.payload.is_some())
        };
        let mut bytes = Vec::with_capacity(64);
        node::write(
            ordinal,
            self.payload.as_ref().map_or(0, Payload::bits),
            &children,
            &mut bytes,
        );
        if let Some(payload) = &self.payload {
            payload.write(&mut bytes);
        }
        out.write(&bytes)?;
        Ok(position)
    }

    /// Writes this node's unwritten children, largest that fit a page first.
    fn lay_out_children(&mut self, out: &mut FileWriter) -> Result<()> {
        let mut bytes_left = out.bytes_left_in_page();
        loop {
            let unplaced = |child: &&mut Self| child.file_position.is_none();
            let order = |child: &&mut Self| (child.total(), child.transition);
            if !self
                .children
                .iter()
                .any(|child| child.file_position.is_none())
            {
                break;
            }
            let fitting = self
                .children
                .iter_mut()
                .filter(unplaced)
                .filter(|child| child.total() <= bytes_left)
                .max_by_key(order);
            let child = if let Some(child) = fitting {
                child
            } else {
                out.pad_to_page()?;
                bytes_left = PAGE_SIZE;
                match self.children.iter_mut().filter(unplaced).max_by_key(order) {
                    Some(child) => child,
                    None => break,
                }
            };
            if child.out_of_page_children || child.out_of_page_in_branch {
                let actual = child.recalculate(out.position());
                if actual > bytes_left {
                    if bytes_left == PAGE_SIZE {
                        child.lay_out_children(out)?;
                        bytes_left = out.bytes_left_in_page();
                    }
                    continue;
                }
            }
            let position = child.write(out)?;
            child.finalize(position);
            bytes_left = out.bytes_left_in_page();
        }
        self.branch_size = 0;
        self.out_of_page_children = true;
        self.out_of_page_in_branch = false;
        self.own_size = self.size_at(out.position());
        Ok(())
    }

    /// All children are there: sizes the node, writes its children if it does not fit a page.
    fn complete(&mut self, out: &mut FileWriter) -> Result<()> {
        self.branch_size = self.children.iter().map(Self::total).sum();
        let own_size = self.size_at(out.position());
        if own_size + self.branch_size >= PAGE_SIZE {
            return self.lay_out_children(out);
        }
        self.own_size = own_size;
        self.out_of_page_children = self
            .children
            .iter()
            .any(|child| child.file_position.is_some());
        self.out_of_page_in_branch = self.children.iter().any(|child| {
            child.file_position.is_none()
                && (child.out_of_page_children || child.out_of_page_in_branch)
        });
        Ok(())
    }
}

/// Builds one trie; then may build another.
pub(crate) struct TrieWriter<P> {
    stack: Vec<Node<P>>,
    previous: Option<Vec<u8>>,
    count: u64,
}

impl<P: Payload> Default for TrieWriter<P> {
    fn default() -> Self {
        Self {
            stack: vec![Node::new(0)],
            previous: None,
            count: 0,
        }
    }
}

impl<P: Payload> TrieWriter<P> {
    /// Adds a key greater than all before.
    pub(crate) fn add(&mut self, key: &[u8], payload: P, out: &mut FileWriter) -> Result<()> {
        let common = match &self.previous {
            None => 0,
            Some(previous) if key <= previous.as_slice() => {
                return Err(SsTableError::Invalid("index keys do not ascend".into()));
            }
            Some(previous) => previous.iter().zip(key).take_while(|(a, b)| a == b).count(),
        };
        while self.stack.len() > common + 1 {
            self.complete_last(out)?;
        }
        for byte in &key[common..] {
            self.stack.push(Node::new(*byte));
        }
        if let Some(last) = self.stack.last_mut() {
            last.payload = Some(payload);
        }
        self.previous = Some(key.to_vec());
        self.count += 1;
        Ok(())
    }

    /// How many keys were added.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn complete_last(&mut self, out: &mut FileWriter) -> Result<()> {
        if let Some(mut node) = self.stack.pop() {
            node.complete(out)?;
            if let Some(parent) = self.stack.last_mut() {
                parent.children.push(node);
            } else {
                self.stack.push(node);
            }
        }
        Ok(())
    }

    /// Writes what is left; the root's position. The writer is then as new.
    pub(crate) fn complete(&mut self, out: &mut FileWriter) -> Result<u64> {
        while self.stack.len() > 1 {
            self.complete_last(out)?;
        }
        let mut whole = std::mem::take(self);
        let mut root = whole.stack.pop().unwrap_or_else(|| Node::new(0));
        root.complete(out)?;
        if root.recalculate(out.position()) > out.bytes_left_in_page() {
            if root.total() <= PAGE_SIZE {
                out.pad_to_page()?;
                root.recalculate(out.position());
            }
            if root.total() > out.bytes_left_in_page() {
                root.lay_out_children(out)?;
                if root.own_size > out.bytes_left_in_page() {
                    out.pad_to_page()?;
                    root.recalculate(out.position());
                }
            }
        }
        root.write(out)
    }
}
