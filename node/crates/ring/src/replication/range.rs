//! Ranges of tokens.

use helenus_types::Token;

/// The tokens after `after` up to and including `up_to`; around the end of the ring when `up_to` is
/// not above `after`; the whole ring when they are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenRange {
    /// Not in the range.
    pub after: Token,
    /// The last token of the range.
    pub up_to: Token,
}

impl TokenRange {
    /// The whole ring.
    pub const FULL: Self = Self {
        after: Token::MINIMUM,
        up_to: Token::MINIMUM,
    };

    /// Whether it goes around the end of the ring.
    pub fn wraps(&self) -> bool {
        self.after >= self.up_to
    }

    /// Whether a token lies in it.
    pub fn contains(&self, token: Token) -> bool {
        if self.wraps() {
            token > self.after || token <= self.up_to
        } else {
            token > self.after && token <= self.up_to
        }
    }

    /// How many tokens it has; the whole ring has 2^64.
    pub fn size(&self) -> u128 {
        let difference = u128::from(
            self.up_to
                .0
                .cast_unsigned()
                .wrapping_sub(self.after.0.cast_unsigned()),
        );
        if difference == 0 { 1 << 64 } else { difference }
    }

    /// The share of the ring that it covers, 0 to 1.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share is shown, not counted with"
    )]
    pub fn share(&self) -> f64 {
        self.size() as f64 / 2_f64.powi(64)
    }

    /// The parts that do not wrap, of which the second ends at [`Token::MINIMUM`] meaning the end.
    pub fn unwrapped(&self) -> Vec<Self> {
        if self.wraps() && self.up_to != Token::MINIMUM {
            vec![
                Self {
                    after: Token::MINIMUM,
                    up_to: self.up_to,
                },
                Self {
                    after: self.after,
                    up_to: Token::MINIMUM,
                },
            ]
        } else {
            vec![*self]
        }
    }

    /// For each of these ascending tokens the range that ends at it; the first wraps.
    pub fn between(ends: impl IntoIterator<Item = Token>) -> Vec<Self> {
        let ends: Vec<Token> = ends.into_iter().collect();
        let before = ends.last().copied().into_iter().chain(ends.iter().copied());
        before
            .zip(&ends)
            .map(|(after, up_to)| Self {
                after,
                up_to: *up_to,
            })
            .collect()
    }

    /// Ranges that stand in ring order, with neighbours made one.
    pub fn joined(ranges: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last)
                    if last.up_to == range.after && last.size() + range.size() <= 1 << 64 =>
                {
                    last.up_to = range.up_to;
                }
                _ => joined.push(range),
            }
        }
        // the first wraps: it may continue the last
        if joined.len() > 1
            && let (Some(first), Some(last)) = (joined.first().copied(), joined.last_mut())
            && last.up_to == first.after
        {
            last.up_to = first.up_to;
            joined.remove(0);
        }
        joined
    }
}

impl std::fmt::Display for TokenRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {}]", self.after, self.up_to)
    }
}
