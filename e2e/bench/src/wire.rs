//! Requests and answers of the native protocol, v4 and v5, as the load generator needs them: many on one connection, few
//! system calls, no allocation per request.

use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Requests in flight on one connection at most; stream ids are below it.
pub(crate) const MAX_IN_FLIGHT: usize = 16_384;
/// A v5 frame holds at most this much.
const MAX_PAYLOAD: usize = 128 * 1024 - 1;
const SELF_CONTAINED: u32 = 1 << 17;
const HEADER: usize = 9;

/// One connection with its buffers.
pub(crate) struct Wire {
    stream: TcpStream,
    version: u8,
    framed: bool,
    /// Bytes read from the socket that make no whole frame yet (v5), or envelopes (v4).
    raw: Vec<u8>,
    /// Envelopes taken out of v5 frames.
    envelopes: Vec<u8>,
    /// Envelopes to send.
    out: Vec<u8>,
    /// Bytes ready for the socket.
    pending: Vec<u8>,
    scratch: Vec<u8>,
}

/// An answer, borrowed from the connection's buffer.
pub(crate) struct Answer<'a> {
    pub(crate) stream: u16,
    pub(crate) opcode: u8,
    pub(crate) body: &'a [u8],
}

impl Wire {
    /// Connect to `ip:9042` and start the protocol.
    pub(crate) fn open(ip: &str, version: u8) -> Result<Self> {
        let address: SocketAddr = format!("{ip}:9042").parse().context("an address")?;
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        let mut wire = Self {
            stream,
            version,
            framed: false,
            raw: Vec::new(),
            envelopes: Vec::new(),
            out: Vec::new(),
            pending: Vec::new(),
            scratch: vec![0; 256 * 1024],
        };
        let (opcode, _) = wire.ask(0x01, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")?;
        if opcode != 0x02 {
            bail!("STARTUP was answered with opcode {opcode:#04x}");
        }
        wire.framed = version >= 5;
        Ok(wire)
    }

    /// The socket, to be polled.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// From now on reading and writing never wait.
    pub(crate) fn set_nonblocking(&mut self) -> Result<()> {
        Ok(self.stream.set_nonblocking(true)?)
    }

    /// Queue one request; `body` appends its body.
    pub(crate) fn put(
        &mut self,
        stream: u16,
        opcode: u8,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let at = self.out.len();
        self.out.extend([self.version, 0]);
        self.out.extend(stream.to_be_bytes());
        self.out.extend([opcode, 0, 0, 0, 0]);
        body(&mut self.out);
        let length = u32::try_from(self.out.len() - at - HEADER)?;
        self.out[at + 5..at + HEADER].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Send what is queued as far as the socket takes it; true when nothing is left.
    pub(crate) fn flush(&mut self) -> Result<bool> {
        if self.framed {
            frame(&self.out, &mut self.pending)?;
        } else {
            self.pending.extend(&self.out);
        }
        self.out.clear();
        let mut sent = 0;
        while sent < self.pending.len() {
            match self.stream.write(&self.pending[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("write to the server"),
            }
        }
        self.pending.drain(..sent);
        Ok(self.pending.is_empty())
    }

    /// Does the socket still have to take something?
    pub(crate) fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Read what is there and hand over every whole answer.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Answer<'_>) -> Result<()>) -> Result<()> {
        match self.stream.read(&mut self.scratch) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(count) => self.raw.extend(&self.scratch[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("read from the server"),
        }
        if self.framed {
            unframe(&mut self.raw, &mut self.envelopes)?;
        } else {
            std::mem::swap(&mut self.raw, &mut self.envelopes);
            if !self.raw.is_empty() {
                // what was left of the last answer comes first
                let fresh = std::mem::take(&mut self.envelopes);
                self.envelopes = std::mem::take(&mut self.raw);
                self.envelopes.extend(fresh);
            }
        }
        let mut at = 0;
        while let Some((answer, end)) = envelope(&self.envelopes, at)? {
            each(answer)?;
            at = end;
        }
        self.envelopes.drain(..at);
        if !self.framed {
            std::mem::swap(&mut self.raw, &mut self.envelopes);
        }
        Ok(())
    }

    /// Send one request and wait for its answer (before [`Wire::set_nonblocking`]).
    pub(crate) fn ask(&mut self, opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>)> {
        self.put(0, opcode, |out| out.extend(body))?;
        self.flush()?;
        let mut found = None;
        while found.is_none() {
            self.receive(|answer| {
                found = Some((answer.opcode, answer.body.to_vec()));
                Ok(())
            })?;
        }
        found.context("an answer")
    }

    /// Run a statement; an ERROR is an error.
    pub(crate) fn query(&mut self, statement: &str) -> Result<()> {
        let mut body = u32::try_from(statement.len())?.to_be_bytes().to_vec();
        body.extend(statement.as_bytes());
        body.extend([0, 1]);
        body.extend(if self.version >= 5 {
            &[0, 0, 0, 0][..]
        } else {
            &[0][..]
        });
        match self.ask(0x07, &body)? {
            (0x00, body) => bail!("{statement}: {}", error_text(&body)),
            _ => Ok(()),
        }
    }

    /// Prepare a statement and return what EXECUTE begins with: its id, and in v5 the id of its metadata.
    pub(crate) fn prepare(&mut self, statement: &str) -> Result<Vec<u8>> {
        let mut body = u32::try_from(statement.len())?.to_be_bytes().to_vec();
        body.extend(statement.as_bytes());
        if self.version >= 5 {
            body.extend([0; 4]);
        }
        let (opcode, body) = self.ask(0x09, &body)?;
        if opcode != 0x08 {
            bail!("{statement}: {}", error_text(&body));
        }
        let rest = body.get(4..).context("a PREPARED")?;
        let mut length = 2 + usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        if self.version >= 5 {
            length += 2 + usize::from(u16::from_be_bytes([rest[length], rest[length + 1]]));
        }
        Ok(rest
            .get(..length)
            .context("the ids of a PREPARED")?
            .to_vec())
    }
}

/// The code and text of an ERROR.
pub(crate) fn error_text(body: &[u8]) -> String {
    let code = body.get(..4).map_or(0, |code| {
        u32::from_be_bytes([code[0], code[1], code[2], code[3]])
    });
    format!(
        "error {code:#06x} {}",
        String::from_utf8_lossy(body.get(6..).unwrap_or_default())
    )
}

fn envelope(bytes: &[u8], at: usize) -> Result<Option<(Answer<'_>, usize)>> {
    let Some(head) = bytes.get(at..at + HEADER) else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes([head[5], head[6], head[7], head[8]]))?;
    let Some(body) = bytes.get(at + HEADER..at + HEADER + length) else {
        return Ok(None);
    };
    let answer = Answer {
        stream: u16::from_be_bytes([head[2], head[3]]),
        opcode: head[4],
        body,
    };
    Ok(Some((answer, at + HEADER + length)))
}

/// Put whole envelopes into as few frames as they fit in; our requests are all smaller than a frame.
fn frame(envelopes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut at = 0;
    while at < envelopes.len() {
        let mut end = at;
        while let Some((_, next)) = envelope(envelopes, end)? {
            if next - at > MAX_PAYLOAD {
                break;
            }
            end = next;
        }
        let payload = &envelopes[at..end];
        if payload.is_empty() {
            bail!("a request does not fit in one frame");
        }
        let header = (u32::try_from(payload.len())? | SELF_CONTAINED).to_le_bytes();
        out.extend(&header[..3]);
        out.extend(&crc24(&header[..3]).to_le_bytes()[..3]);
        out.extend(payload);
        out.extend(payload_crc(payload).to_le_bytes());
        at = end;
    }
    Ok(())
}

/// Take the payloads of whole frames out of `raw`.
fn unframe(raw: &mut Vec<u8>, envelopes: &mut Vec<u8>) -> Result<()> {
    let mut at = 0;
    while let Some(header) = raw.get(at..at + 6) {
        let bits = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let length = usize::try_from(bits & 0x1_FFFF)?;
        let Some(rest) = raw.get(at + 6..at + 6 + length + 4) else {
            break;
        };
        let (payload, crc) = rest.split_at(length);
        if crc24(&header[..3]).to_le_bytes()[..3] != header[3..]
            || payload_crc(payload).to_le_bytes() != crc
        {
            bail!("a frame of the server fails its checksum");
        }
        envelopes.extend(payload);
        at += 6 + length + 4;
    }
    raw.drain(..at);
    Ok(())
}

fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x87_5060;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= 0x197_4F0B;
            }
        }
    }
    crc & 0xFF_FFFF
}

fn payload_crc(payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xFA, 0x2D, 0x55, 0xCA]);
    crc.update(payload);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_went() {
        let mut envelopes = Vec::new();
        for size in [0_u32, 10, 70_000, 70_000, 1] {
            envelopes.extend([5, 0, 0, 1, 7]);
            envelopes.extend(size.to_be_bytes());
            envelopes.extend(std::iter::repeat_n(7, usize::try_from(size).unwrap()));
        }
        let (mut raw, mut back) = (Vec::new(), Vec::new());
        frame(&envelopes, &mut raw).unwrap();
        let mut first: Vec<u8> = raw.drain(..50).collect();
        unframe(&mut first, &mut back).unwrap();
        assert!(back.is_empty());
        first.extend(raw);
        unframe(&mut first, &mut back).unwrap();
        assert_eq!(back, envelopes);
        assert!(first.is_empty());
    }
}
