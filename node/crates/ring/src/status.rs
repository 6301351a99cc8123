//! The texts of gossip's STATUS and STATUS_WITH_PORT. Source: Cassandra 5.0 `gms/VersionedValue.java`.

use helenus_types::{Endpoint, HostId, Token};
use std::net::{IpAddr, SocketAddr};
use uuid::Uuid;

/// Where a node stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No status yet: it gossips but owns nothing.
    None,
    /// Joining with new tokens.
    Bootstrapping {
        /// The first of its tokens.
        token: Token,
    },
    /// Joining in the place of a dead node.
    Replacing {
        /// The dead node's endpoint.
        replaced: Endpoint,
    },
    /// A member.
    Normal {
        /// The first of its tokens.
        token: Token,
    },
    /// Handing its data over, to leave.
    Leaving {
        /// The first of its tokens.
        token: Token,
    },
    /// Left, to be forgotten.
    Left {
        /// The first of its tokens.
        token: Token,
        /// When to forget it, in milliseconds since 1970.
        expires_at_ms: i64,
    },
    /// Being removed by another node.
    Removing {
        /// The removed node's id.
        host: HostId,
    },
    /// Removed by another node, to be forgotten.
    Removed {
        /// The removed node's id.
        host: HostId,
        /// When to forget it, in milliseconds since 1970.
        expires_at_ms: i64,
    },
    /// A member that was shut down in order.
    Shutdown,
    /// Started without serving (a replacement of its own address in progress, or `join_ring: false`).
    Hibernate,
    /// A status that is not known, such as MOVING.
    Unknown,
}

impl Status {
    /// Reads a status; what cannot be understood is [`Status::Unknown`].
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split(',');
        let kind = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        if kind.is_empty() {
            return Self::None;
        }
        Self::of_parts(kind, &rest).unwrap_or(Self::Unknown)
    }

    fn of_parts(kind: &str, rest: &[&str]) -> Option<Self> {
        let first = rest.first().copied();
        let token = || first?.parse().ok().map(Token);
        let host = || first?.parse::<Uuid>().ok().map(HostId);
        let expires_at_ms = || rest.get(1)?.parse().ok();
        Some(match kind {
            "BOOT" => Self::Bootstrapping { token: token()? },
            "BOOT_REPLACE" => Self::Replacing {
                replaced: parse_endpoint(first?)?,
            },
            "NORMAL" => Self::Normal { token: token()? },
            "LEAVING" => Self::Leaving { token: token()? },
            "LEFT" => Self::Left {
                token: token()?,
                expires_at_ms: expires_at_ms()?,
            },
            "removing" => Self::Removing { host: host()? },
            "removed" => Self::Removed {
                host: host()?,
                expires_at_ms: expires_at_ms()?,
            },
            "shutdown" => Self::Shutdown,
            "hibernate" => Self::Hibernate,
            _ => return None,
        })
    }

    /// The text; `with_port` for STATUS_WITH_PORT. `None` and `Unknown` give an empty text.
    pub fn text(&self, with_port: bool) -> String {
        match self {
            Self::None | Self::Unknown => String::new(),
            Self::Bootstrapping { token } => format!("BOOT,{token}"),
            Self::Replacing { replaced } if with_port => format!("BOOT_REPLACE,{replaced}"),
            Self::Replacing { replaced } => format!("BOOT_REPLACE,{}", replaced.address()),
            Self::Normal { token } => format!("NORMAL,{token}"),
            Self::Leaving { token } => format!("LEAVING,{token}"),
            Self::Left {
                token,
                expires_at_ms,
            } => format!("LEFT,{token},{expires_at_ms}"),
            Self::Removing { host } => format!("removing,{host}"),
            Self::Removed {
                host,
                expires_at_ms,
            } => format!("removed,{host},{expires_at_ms}"),
            Self::Shutdown => "shutdown,true".to_owned(),
            Self::Hibernate => "hibernate,true".to_owned(),
        }
    }

    /// Whether the node is gone or must not be talked to: gossip leaves it alone.
    pub fn is_dead(&self) -> bool {
        matches!(
            self,
            Self::Removing { .. } | Self::Removed { .. } | Self::Left { .. } | Self::Hibernate
        )
    }

    /// Whether the node is on its way into the ring.
    pub fn is_joining(&self) -> bool {
        matches!(self, Self::Bootstrapping { .. } | Self::Replacing { .. })
    }

    /// When to forget the node, in milliseconds since 1970.
    pub fn expires_at_ms(&self) -> Option<i64> {
        match self {
            Self::Left { expires_at_ms, .. } | Self::Removed { expires_at_ms, .. } => {
                Some(*expires_at_ms)
            }
            _ => None,
        }
    }

    /// Whether a node that announces this status and has tokens owns them.
    pub fn owns_tokens(&self) -> bool {
        matches!(
            self,
            Self::Normal { .. }
                | Self::Leaving { .. }
                | Self::Removing { .. }
                | Self::Shutdown
                | Self::Hibernate
        )
    }
}

/// An address with a port, or one without that gets Cassandra's 7000.
fn parse_endpoint(text: &str) -> Option<Endpoint> {
    text.parse::<SocketAddr>().map(Endpoint).ok().or_else(|| {
        text.parse::<IpAddr>()
            .ok()
            .map(|address| Endpoint::new(address, 7000))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cassandras() {
        let host = HostId(Uuid::from_u128(7));
        let replaced = Endpoint::new([10, 0, 0, 1].into(), 7000);
        for (status, text) in [
            (Status::None, ""),
            (Status::Bootstrapping { token: Token(-5) }, "BOOT,-5"),
            (Status::Replacing { replaced }, "BOOT_REPLACE,10.0.0.1:7000"),
            (Status::Normal { token: Token(1) }, "NORMAL,1"),
            (Status::Leaving { token: Token(1) }, "LEAVING,1"),
            (
                Status::Left {
                    token: Token(1),
                    expires_at_ms: 99,
                },
                "LEFT,1,99",
            ),
            (
                Status::Removing { host },
                "removing,00000000-0000-0000-0000-000000000007",
            ),
            (
                Status::Removed {
                    host,
                    expires_at_ms: 9,
                },
                "removed,00000000-0000-0000-0000-000000000007,9",
            ),
            (Status::Shutdown, "shutdown,true"),
            (Status::Hibernate, "hibernate,true"),
        ] {
            assert_eq!(status.text(true), text);
            assert_eq!(Status::parse(text), status);
        }
        assert_eq!(
            Status::Replacing { replaced }.text(false),
            "BOOT_REPLACE,10.0.0.1"
        );
        assert_eq!(
            Status::parse("BOOT_REPLACE,10.0.0.1"),
            Status::Replacing { replaced }
        );
        for text in [
            "NORMAL",
            "NORMAL,x",
            "LEFT,1",
            "MOVING,5",
            "removed,1,2",
            ",",
            "BOOT_REPLACE,?",
        ] {
            assert!(
                matches!(Status::parse(text), Status::Unknown | Status::None),
                "{text}"
            );
        }
    }
}
