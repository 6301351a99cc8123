//! The forms of trie nodes.

/// Ordinals of the node types.
const PAYLOAD_ONLY: u8 = 0;
const SINGLE_NO_PAYLOAD_4: u8 = 1;
const SINGLE_8: u8 = 2;
const SINGLE_NO_PAYLOAD_12: u8 = 3;
const SINGLE_16: u8 = 4;
const SPARSE_8: u8 = 5;
const SPARSE_12: u8 = 6;
const SPARSE_16: u8 = 7;
const SPARSE_24: u8 = 8;
const SPARSE_40: u8 = 9;
const DENSE_12: u8 = 10;
const DENSE_16: u8 = 11;
const DENSE_24: u8 = 12;
const DENSE_32: u8 = 13;
const DENSE_40: u8 = 14;
const LONG_DENSE: u8 = 15;

/// Largest distance and the types for one child, few children, many children, by pointer size.
const CHOICES: [(u64, u8, u8, u8); 8] = [
    (0xf, SINGLE_NO_PAYLOAD_4, SPARSE_8, DENSE_12),
    (0xff, SINGLE_8, SPARSE_8, DENSE_12),
    (0xfff, SINGLE_NO_PAYLOAD_12, SPARSE_12, DENSE_12),
    (0xffff, SINGLE_16, SPARSE_16, DENSE_16),
    (0xff_ffff, DENSE_24, SPARSE_24, DENSE_24),
    (0xffff_ffff, DENSE_32, SPARSE_40, DENSE_32),
    (0xff_ffff_ffff, DENSE_40, SPARSE_40, DENSE_40),
    (u64::MAX, LONG_DENSE, LONG_DENSE, LONG_DENSE),
];

/// Bytes of a pointer; 0 for those of 4 or 12 bits.
fn pointer_bytes(ordinal: u8) -> usize {
    match ordinal {
        SINGLE_8 | SPARSE_8 => 1,
        SINGLE_16 | SPARSE_16 | DENSE_16 => 2,
        SPARSE_24 | DENSE_24 => 3,
        DENSE_32 => 4,
        SPARSE_40 | DENSE_40 => 5,
        LONG_DENSE => 8,
        _ => 0,
    }
}

/// The type for a node with these children's bytes (ascending), the largest distance to a child,
/// and whether it has a payload.
pub(crate) fn choose(transitions: &[u8], distance: u64, has_payload: bool) -> u8 {
    let (Some(first), Some(last)) = (transitions.first(), transitions.last()) else {
        return PAYLOAD_ONLY;
    };
    let mut at = CHOICES
        .iter()
        .position(|choice| distance <= choice.0)
        .unwrap_or(CHOICES.len() - 1);
    if transitions.len() == 1 {
        if has_payload && matches!(CHOICES[at].1, SINGLE_NO_PAYLOAD_4 | SINGLE_NO_PAYLOAD_12) {
            at += 1;
        }
        return CHOICES[at].1;
    }
    let (_, _, sparse, dense) = CHOICES[at];
    let span = usize::from(last - first) + 1;
    if size(sparse, transitions.len(), span) < size(dense, transitions.len(), span) {
        sparse
    } else {
        dense
    }
}

/// Size of a node without its payload.
pub(crate) fn size(ordinal: u8, children: usize, span: usize) -> usize {
    match ordinal {
        PAYLOAD_ONLY => 1,
        SINGLE_NO_PAYLOAD_4 => 2,
        SINGLE_NO_PAYLOAD_12 => 3,
        SINGLE_8 | SINGLE_16 => 2 + pointer_bytes(ordinal),
        SPARSE_12 => 2 + (children * 5).div_ceil(2),
        SPARSE_8 | SPARSE_16 | SPARSE_24 | SPARSE_40 => 2 + children * (1 + pointer_bytes(ordinal)),
        DENSE_12 => 3 + (span * 3).div_ceil(2),
        _ => 3 + span * pointer_bytes(ordinal),
    }
}

/// Appends a node without its payload: children as (byte, distance), ascending.
pub(crate) fn write(ordinal: u8, payload_bits: u8, children: &[(u8, u64)], out: &mut Vec<u8>) {
    let head = ordinal << 4;
    match (ordinal, children) {
        (PAYLOAD_ONLY, _) | (_, []) => out.push(head | payload_bits),
        (SINGLE_NO_PAYLOAD_4, [(byte, distance), ..]) => {
            out.extend_from_slice(&[head | distance.to_be_bytes()[7] & 0xf, *byte]);
        }
        (SINGLE_NO_PAYLOAD_12, [(byte, distance), ..]) => {
            let [.., high, low] = distance.to_be_bytes();
            out.extend_from_slice(&[head | high & 0xf, low, *byte]);
        }
        (SINGLE_8 | SINGLE_16, [(byte, distance), ..]) => {
            out.extend_from_slice(&[head | payload_bits, *byte]);
            put_pointer(*distance, pointer_bytes(ordinal), out);
        }
        (SPARSE_8..=SPARSE_40, _) => {
            out.extend_from_slice(&[
                head | payload_bits,
                u8::try_from(children.len()).unwrap_or(u8::MAX),
            ]);
            out.extend(children.iter().map(|child| child.0));
            put_pointers(
                children.iter().map(|child| child.1),
                pointer_bytes(ordinal),
                out,
            );
        }
        (_, [(first, _), ..]) => {
            let last = children[children.len() - 1].0;
            out.extend_from_slice(&[head | payload_bits, *first, last - first]);
            let mut next = children.iter().peekable();
            let all = (*first..=last).map(|byte| {
                next.next_if(|child| child.0 == byte)
                    .map_or(0, |child| child.1)
            });
            put_pointers(all, pointer_bytes(ordinal), out);
        }
    }
}

fn put_pointer(distance: u64, bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&distance.to_be_bytes()[8 - bytes..]);
}

/// Appends pointers; `bytes` 0 means 12 bits each.
fn put_pointers(distances: impl Iterator<Item = u64>, bytes: usize, out: &mut Vec<u8>) {
    if bytes > 0 {
        for distance in distances {
            put_pointer(distance, bytes, out);
        }
        return;
    }
    let mut carry = None;
    for distance in distances {
        let [.., high, low] = distance.to_be_bytes();
        match carry.take() {
            None => {
                out.push((high << 4) | (low >> 4));
                carry = Some(low << 4);
            }
            Some(left) => out.extend_from_slice(&[left | (high & 0xf), low]),
        }
    }
    out.extend(carry);
}

/// A node within bytes that start with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeView {
    ordinal: u8,
    /// Payload flags; 0 for none.
    pub payload_bits: u8,
    /// How many children, or how many bytes a dense node spans.
    pub range: usize,
    /// Where the payload stands.
    pub payload_at: usize,
}

impl NodeView {
    /// Reads a node's head; `None` when the bytes are too few.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let head = *bytes.first()?;
        let ordinal = head >> 4;
        let range = match ordinal {
            PAYLOAD_ONLY => 0,
            SINGLE_NO_PAYLOAD_4 | SINGLE_8 | SINGLE_NO_PAYLOAD_12 | SINGLE_16 => 1,
            SPARSE_8..=SPARSE_40 => usize::from(*bytes.get(1)?),
            _ => usize::from(*bytes.get(2)?) + 1,
        };
        let payload_bits = if matches!(ordinal, SINGLE_NO_PAYLOAD_4 | SINGLE_NO_PAYLOAD_12) {
            0
        } else {
            head & 0xf
        };
        let payload_at = size(ordinal, range, range);
        (bytes.len() >= payload_at).then_some(Self {
            ordinal,
            payload_bits,
            range,
            payload_at,
        })
    }

    fn is_dense(&self) -> bool {
        self.ordinal >= DENSE_12
    }

    /// The byte of a child.
    pub(crate) fn byte(&self, bytes: &[u8], child: usize) -> u8 {
        let at = match self.ordinal {
            SINGLE_NO_PAYLOAD_12 => 2,
            SPARSE_8..=SPARSE_40 => 2 + child,
            _ if self.is_dense() => {
                return bytes[1].wrapping_add(u8::try_from(child).unwrap_or(u8::MAX));
            }
            _ => 1,
        };
        bytes.get(at).copied().unwrap_or(0)
    }

    /// Distance to a child before this node; `None` when a dense node has no such child.
    pub(crate) fn distance(&self, bytes: &[u8], child: usize) -> Option<u64> {
        let distance = match self.ordinal {
            SINGLE_NO_PAYLOAD_4 => u64::from(bytes[0] & 0xf),
            SINGLE_NO_PAYLOAD_12 => u64::from(u16::from_be_bytes([bytes[0] & 0xf, bytes[1]])),
            SINGLE_8 | SINGLE_16 => unsigned(bytes.get(2..2 + pointer_bytes(self.ordinal))?),
            SPARSE_12 => twelve_bits(bytes.get(2 + self.range..self.payload_at)?, child)?,
            DENSE_12 => twelve_bits(bytes.get(3..self.payload_at)?, child)?,
            SPARSE_8..=SPARSE_40 => {
                let width = pointer_bytes(self.ordinal);
                let at = 2 + self.range + child * width;
                unsigned(bytes.get(at..at + width)?)
            }
            PAYLOAD_ONLY => 0,
            _ => {
                let width = pointer_bytes(self.ordinal);
                let at = 3 + child * width;
                unsigned(bytes.get(at..at + width)?)
            }
        };
        (distance > 0).then_some(distance)
    }

    /// Finds the child of a byte (`None`: the key has ended): its index, or where it would stand.
    pub(crate) fn search(&self, bytes: &[u8], byte: Option<u8>) -> Result<usize, usize> {
        let Some(byte) = byte else { return Err(0) };
        if self.is_dense() {
            let Some(at) = byte.checked_sub(bytes[1]).map(usize::from) else {
                return Err(0);
            };
            if at >= self.range {
                return Err(self.range);
            }
            return if self.distance(bytes, at).is_some() {
                Ok(at)
            } else {
                Err(at)
            };
        }
        for at in 0..self.range {
            match self.byte(bytes, at).cmp(&byte) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(at),
                std::cmp::Ordering::Greater => return Err(at),
            }
        }
        Err(self.range)
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn twelve_bits(bytes: &[u8], index: usize) -> Option<u64> {
    let at = index * 3 / 2;
    let pair = (u16::from(*bytes.get(at)?) << 8) | u16::from(*bytes.get(at + 1)?);
    Some(u64::from(if index.is_multiple_of(2) {
        pair >> 4
    } else {
        pair & 0xfff
    }))
}
