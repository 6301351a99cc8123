//! A small blocking client of the native protocol, v4 and v5, with frames written and read by hand.
//!
//! It shares no code with our server, so that a misreading of the protocol cannot hide on both sides. It keeps the bytes of
//! every answer, because the comparisons with Cassandra are made on bytes.
//!
//! Source of the formats: Apache Cassandra's `doc/native_protocol_v4.spec` and `native_protocol_v5.spec`.

mod answer;
mod frame;

pub(crate) use answer::hex;
pub use answer::{
    Answer, ColumnSpec, Metadata, Outcome, Prepared, Rows, SchemaChange, ServerError, type_name,
};

use anyhow::{Context, Result, bail};
use frame::Framing;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const STARTUP: u8 = 0x01;
const OPTIONS: u8 = 0x05;
const QUERY: u8 = 0x07;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0A;
const REGISTER: u8 = 0x0B;

/// A value bound to a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// These bytes.
    Bytes(Vec<u8>),
    /// NULL.
    Null,
    /// Leave the column as it is.
    Unset,
}

/// What goes with a QUERY or an EXECUTE.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Consistency level by number; ONE is 1, QUORUM 4.
    pub consistency: u16,
    /// Bound values.
    pub values: Vec<Value>,
    /// Rows a page.
    pub page_size: Option<i32>,
    /// Where the last page ended.
    pub paging_state: Option<Vec<u8>>,
    /// Ask for rows without metadata.
    pub skip_metadata: bool,
    /// Default timestamp in microseconds.
    pub timestamp: Option<i64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            consistency: 1,
            values: Vec::new(),
            page_size: None,
            paging_state: None,
            skip_metadata: false,
            timestamp: None,
        }
    }
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    version: u8,
    framing: Framing,
    next_stream: i16,
}

impl Connection {
    /// Connect to `ip:9042` and start the protocol in this version (3, 4 or 5), without compression.
    pub fn open(ip: &str, version: u8) -> Result<Self> {
        let mut connection = Self::open_raw(ip, version)?;
        let answer = connection.request(STARTUP, &string_map(&[("CQL_VERSION", "3.0.0")]))?;
        if answer.opcode != 0x02 {
            bail!(
                "STARTUP was answered with opcode {:#x}: {:?}",
                answer.opcode,
                String::from_utf8_lossy(&answer.body)
            );
        }
        if version >= 5 {
            connection.framing = Framing::Checksummed;
        }
        Ok(connection)
    }

    /// Connect and say nothing yet.
    pub fn open_raw(ip: &str, version: u8) -> Result<Self> {
        let address: SocketAddr = format!("{ip}:9042").parse().context("an address")?;
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        Ok(Self {
            stream,
            version,
            framing: Framing::Bare,
            next_stream: 0,
        })
    }

    /// The protocol's version.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Send any request and read its answer.
    pub fn request(&mut self, opcode: u8, body: &[u8]) -> Result<Answer> {
        self.next_stream = self.next_stream.wrapping_add(1) & 0x7FFF;
        let mut envelope = vec![self.version, 0];
        envelope.extend(self.next_stream.to_be_bytes());
        envelope.push(opcode);
        envelope.extend(u32::try_from(body.len())?.to_be_bytes());
        envelope.extend(body);
        self.framing.write(&mut self.stream, &envelope)?;
        let envelope = self.framing.read_envelope(&mut self.stream)?;
        let answer = Answer::parse(&envelope)?;
        if answer.stream != self.next_stream {
            bail!(
                "the answer is for stream {}, the request was on {}",
                answer.stream,
                self.next_stream
            );
        }
        Ok(answer)
    }

    /// OPTIONS.
    pub fn options(&mut self) -> Result<Answer> {
        self.request(OPTIONS, &[])
    }

    /// QUERY.
    pub fn query(&mut self, statement: &str, parameters: &Parameters) -> Result<Answer> {
        let mut body = long_string(statement)?;
        self.put_parameters(&mut body, parameters)?;
        self.request(QUERY, &body)
    }

    /// QUERY at ONE without values; an error answer is an error.
    pub fn run(&mut self, statement: &str) -> Result<Outcome> {
        match self.query(statement, &Parameters::default())?.outcome()? {
            Outcome::Error(error) => bail!("{statement}: {error}"),
            outcome => Ok(outcome),
        }
    }

    /// PREPARE.
    pub fn prepare(&mut self, statement: &str) -> Result<Answer> {
        let mut body = long_string(statement)?;
        if self.version >= 5 {
            body.extend(0_u32.to_be_bytes());
        }
        self.request(PREPARE, &body)
    }

    /// EXECUTE.
    pub fn execute(&mut self, prepared: &Prepared, parameters: &Parameters) -> Result<Answer> {
        let mut body = short_bytes(&prepared.id)?;
        if self.version >= 5 {
            body.extend(short_bytes(&prepared.result_metadata_id)?);
        }
        self.put_parameters(&mut body, parameters)?;
        self.request(EXECUTE, &body)
    }

    /// REGISTER for events.
    pub fn register(&mut self, events: &[&str]) -> Result<Answer> {
        let mut body = u16::try_from(events.len())?.to_be_bytes().to_vec();
        for event in events {
            body.extend(short_bytes(event.as_bytes())?);
        }
        self.request(REGISTER, &body)
    }

    fn put_parameters(&self, body: &mut Vec<u8>, parameters: &Parameters) -> Result<()> {
        body.extend(parameters.consistency.to_be_bytes());
        let flags = [
            (0x01, !parameters.values.is_empty()),
            (0x02, parameters.skip_metadata),
            (0x04, parameters.page_size.is_some()),
            (0x08, parameters.paging_state.is_some()),
            (0x20, parameters.timestamp.is_some()),
        ];
        let flags: u8 = flags.iter().filter(|(_, on)| *on).map(|(bit, _)| bit).sum();
        if self.version >= 5 {
            body.extend(u32::from(flags).to_be_bytes());
        } else {
            body.push(flags);
        }
        if !parameters.values.is_empty() {
            body.extend(u16::try_from(parameters.values.len())?.to_be_bytes());
            for value in &parameters.values {
                match value {
                    Value::Bytes(bytes) => body.extend(long_bytes(bytes)?),
                    Value::Null => body.extend((-1_i32).to_be_bytes()),
                    Value::Unset => body.extend((-2_i32).to_be_bytes()),
                }
            }
        }
        if let Some(size) = parameters.page_size {
            body.extend(size.to_be_bytes());
        }
        if let Some(state) = &parameters.paging_state {
            body.extend(long_bytes(state)?);
        }
        if let Some(timestamp) = parameters.timestamp {
            body.extend(timestamp.to_be_bytes());
        }
        Ok(())
    }
}

fn long_bytes(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = i32::try_from(bytes.len())?.to_be_bytes().to_vec();
    out.extend(bytes);
    Ok(out)
}

fn long_string(text: &str) -> Result<Vec<u8>> {
    long_bytes(text.as_bytes())
}

fn short_bytes(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = u16::try_from(bytes.len())?.to_be_bytes().to_vec();
    out.extend(bytes);
    Ok(out)
}

/// A string map; its entries are short by construction.
fn string_map(entries: &[(&str, &str)]) -> Vec<u8> {
    let count = u16::try_from(entries.len()).unwrap_or_default();
    let mut out = count.to_be_bytes().to_vec();
    for (key, value) in entries {
        for text in [key, value] {
            out.extend(short_bytes(text.as_bytes()).unwrap_or_default());
        }
    }
    out
}
