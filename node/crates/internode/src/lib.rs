//! Cassandra's internode messaging, versions 12 (4.x) and 13 (5.0), as codecs without sockets:
//! handshake, frames, messages, and the payloads that need no rows.
//!
//! The edge owns one TCP connection per peer and [`ConnectionType`]; it feeds received bytes to a
//! decoder and writes what an encoder returns. Payloads of reads, writes and schema are opaque
//! [`bytes::Bytes`] here; the crates that own those types encode them.
//!
//! Invariants:
//! N1: nothing received panics or allocates more than the stated limits; corruption is an error
//!     that ends the connection.
//! N2: what a decoder accepts, the encoder writes back as the same bytes (flags and parameters that
//!     Cassandra would ignore are dropped).
//! N3: both ends settle on the highest version that both accept, never outside either's range.

pub mod crc;
pub mod error;
pub mod frame;
pub mod gossip;
pub mod handshake;
pub mod message;
pub mod params;
pub mod payload;
pub mod stream;
pub mod verb;
pub mod version;
pub mod wire;

pub use error::{DecodeError, EncodeError};
pub use frame::{Frame, FrameDecoder, FrameEncoder, Framing};
pub use handshake::{Accept, ConnectionType, Initiate};
pub use message::{Flags, Header, Message};
pub use params::Param;
pub use stream::{InboundMessages, OutboundMessages};
pub use verb::{TimeoutKind, Timeouts, Verb};
pub use version::{MessagingVersion, VersionRange};
