//! Messages to frames and back: small messages share a frame, large ones span several.

use crate::error::{DecodeError, EncodeError};
use crate::frame::{FrameDecoder, FrameEncoder, Framing, MAX_PAYLOAD_BYTES};
use crate::message::{DEFAULT_MAX_MESSAGE_BYTES, Message};
use bytes::{Bytes, BytesMut};
use helenus_types::Reader;

/// Encoded messages above this many bytes go to the large connection (64 KiB less the longest
/// frame header and trailer).
pub const LARGE_MESSAGE_THRESHOLD: usize = (64 << 10) - 12;

/// Turns messages into the bytes of a connection. [`OutboundMessages::push`] gathers small messages
/// into one frame; [`OutboundMessages::take`] closes the frame and hands over what is to be sent.
#[derive(Debug)]
pub struct OutboundMessages {
    encoder: FrameEncoder,
    max_message_bytes: usize,
    open: Vec<u8>,
    ready: BytesMut,
}

impl OutboundMessages {
    /// For a connection of this framing.
    pub fn new(framing: Framing) -> Self {
        Self {
            encoder: FrameEncoder::new(framing),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            open: Vec::new(),
            ready: BytesMut::new(),
        }
    }

    /// With another limit than [`DEFAULT_MAX_MESSAGE_BYTES`].
    #[must_use]
    pub fn with_limit(mut self, max_message_bytes: usize) -> Self {
        self.max_message_bytes = max_message_bytes;
        self
    }

    /// Adds a message. An error leaves the connection as it was.
    pub fn push(&mut self, message: &Message) -> Result<(), EncodeError> {
        let bytes = message.encode()?;
        self.push_encoded(&bytes)
    }

    /// Adds a message that [`Message::encode`] wrote.
    pub fn push_encoded(&mut self, message: &[u8]) -> Result<(), EncodeError> {
        if message.len() > self.max_message_bytes {
            return Err(EncodeError::Oversized {
                size_bytes: message.len() as u64,
                limit_bytes: self.max_message_bytes as u64,
            });
        }
        if self.open.len() + message.len() > MAX_PAYLOAD_BYTES {
            self.close_frame();
        }
        if message.len() > MAX_PAYLOAD_BYTES {
            self.encoder.encode(false, message, &mut self.ready);
        } else {
            self.open.extend_from_slice(message);
        }
        Ok(())
    }

    fn close_frame(&mut self) {
        if !self.open.is_empty() {
            self.encoder.encode(true, &self.open, &mut self.ready);
            self.open.clear();
        }
    }

    /// Bytes gathered and not yet taken, before framing and compression.
    pub fn pending_bytes(&self) -> usize {
        self.ready.len() + self.open.len()
    }

    /// What is to be sent now; empty when nothing was pushed.
    pub fn take(&mut self) -> Bytes {
        self.close_frame();
        self.ready.split().freeze()
    }
}

/// A message of which only some frames have come.
#[derive(Debug)]
struct Partial {
    wanted: usize,
    bytes: BytesMut,
}

/// Turns the bytes of a connection into messages. After an error that is not recoverable
/// ([`DecodeError::is_recoverable`]) it must not be used again.
#[derive(Debug)]
pub struct InboundMessages {
    frames: FrameDecoder,
    max_message_bytes: usize,
    current: Option<Reader>,
    partial: Option<Partial>,
}

impl InboundMessages {
    /// For a connection of this framing.
    pub fn new(framing: Framing) -> Self {
        Self {
            frames: FrameDecoder::new(framing),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            current: None,
            partial: None,
        }
    }

    /// With another limit than [`DEFAULT_MAX_MESSAGE_BYTES`].
    #[must_use]
    pub fn with_limit(mut self, max_message_bytes: usize) -> Self {
        self.max_message_bytes = max_message_bytes;
        self
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.frames.feed(bytes);
    }

    /// Where the edge may read a socket's bytes to, in place of [`InboundMessages::feed`].
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        self.frames.buffer_mut()
    }

    /// Whether the connection would end inside a frame or message if it ended now.
    pub fn is_mid_message(&self) -> bool {
        self.frames.is_mid_frame() || self.partial.is_some() || self.current.is_some()
    }

    /// The next complete message, if there is one.
    pub fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        loop {
            if let Some(reader) = self.current.as_mut() {
                if !reader.is_empty() {
                    return Message::decode(reader).map(Some);
                }
                self.current = None;
            }
            let Some(frame) = self.frames.next_frame()? else {
                return Ok(None);
            };
            if frame.self_contained {
                if self.partial.is_some() {
                    return Err(DecodeError::invalid(
                        "frame",
                        "self-contained inside a large message",
                    ));
                }
                self.current = Some(Reader::new(frame.payload));
            } else if let Some(message) = self.large_part(&frame.payload)? {
                return Ok(Some(message));
            }
        }
    }

    fn large_part(&mut self, payload: &Bytes) -> Result<Option<Message>, DecodeError> {
        let partial = match self.partial.as_mut() {
            Some(partial) => partial,
            None => self.partial.insert(Partial {
                wanted: self.checked_length(payload)?,
                bytes: BytesMut::new(),
            }),
        };
        partial.bytes.extend_from_slice(payload);
        if partial.bytes.len() < partial.wanted {
            return Ok(None);
        }
        let surplus = partial.bytes.len() - partial.wanted;
        let whole = std::mem::take(&mut partial.bytes).freeze();
        self.partial = None;
        if surplus > 0 {
            return Err(DecodeError::invalid(
                "large message",
                format!("{surplus} bytes beyond its end"),
            ));
        }
        Message::decode(&mut Reader::new(whole)).map(Some)
    }

    /// The announced length of a large message; the first frame must hold the whole header.
    fn checked_length(&self, start: &Bytes) -> Result<usize, DecodeError> {
        let size_bytes = Message::length_of(start)?;
        match usize::try_from(size_bytes) {
            Ok(size) if size <= self.max_message_bytes => Ok(size),
            _ => Err(DecodeError::Oversized {
                size_bytes,
                limit_bytes: self.max_message_bytes as u64,
            }),
        }
    }
}
