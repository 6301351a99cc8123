//! Asks a running Cassandra (or Helenus) node what it knows of its ring, as a node in its shadow
//! round would, and prints the answer. For tests and curiosity; joins nothing.
//!
//! `cargo run -p helenus-internode --example observe -- PEER OWN [MAX_VERSION] [CLUSTER] [DUMP_FOLDER]`
//! where OWN is a free local address: the peer answers by connecting to OWN:7000. With DUMP_FOLDER
//! the bytes received are kept there; that is how the golden files of this crate were made.

use helenus_internode::gossip::{ApplicationState, EndpointStates, GossipMessage};
use helenus_internode::handshake::ACCEPT_BYTES;
use helenus_internode::{
    Accept, ConnectionType, Framing, InboundMessages, Initiate, Message, MessagingVersion,
    OutboundMessages, Timeouts, Verb, VersionRange,
};
use helenus_types::Endpoint;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |n: usize, default: &str| {
        arguments
            .get(n)
            .cloned()
            .unwrap_or_else(|| default.to_owned())
    };
    let peer = Endpoint::new(argument(0, "127.0.0.1").parse::<IpAddr>()?, 7000);
    let own = Endpoint::new(argument(1, "127.0.0.2").parse::<IpAddr>()?, 7000);
    let ours = VersionRange {
        min: 12,
        max: argument(2, "13").parse()?,
    };
    let cluster = argument(3, "helenus");
    let dump = arguments.get(4).map(PathBuf::from);

    let listener = TcpListener::bind(own.0)?;
    let (mut outbound, version) = connect(peer, own, ours)?;
    let partitioner = "org.apache.cassandra.dht.Murmur3Partitioner".to_owned();
    let syn = GossipMessage::Syn {
        cluster,
        partitioner,
        digests: Vec::new(),
    };
    send(&mut outbound, &syn, version)?;

    let (mut inbound, _) = listener.accept()?;
    inbound.set_read_timeout(Some(Duration::from_secs(10)))?;
    let answer = receive(&mut inbound, ours, dump.as_deref())?;
    let GossipMessage::Ack { digests, states } = answer else {
        return Err(format!("answered {answer:?}").into());
    };
    println!("{} digests, {} states", digests.len(), states.len());
    print_states(&states)?;
    Ok(())
}

fn connect(
    peer: Endpoint,
    own: Endpoint,
    ours: VersionRange,
) -> Result<(TcpStream, MessagingVersion), Box<dyn Error>> {
    let mut socket = TcpStream::connect_timeout(&peer.0, Duration::from_secs(2))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let initiate = Initiate {
        accept: ours,
        connection: ConnectionType::Urgent,
        framing: Framing::Crc,
        from: own,
    };
    socket.write_all(&initiate.encode())?;
    let mut answer = [0; ACCEPT_BYTES];
    socket.read_exact(&mut answer)?;
    let accept = Accept::decode(&answer)?.ok_or("no answer to the handshake")?;
    println!(
        "{peer} uses messaging version {}, knows up to {}",
        accept.used, accept.max
    );
    Ok((socket, accept.agreed(ours)?))
}

fn send(
    socket: &mut TcpStream,
    message: &GossipMessage,
    version: MessagingVersion,
) -> Result<(), Box<dyn Error>> {
    let mut frames = OutboundMessages::new(Framing::Crc);
    frames.push(&Message::new(
        1,
        message.verb(),
        message.encode(version)?,
        wall_ms()?,
        &Timeouts::default(),
    ))?;
    socket.write_all(&frames.take())?;
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "an example has no simulated time"
)]
fn wall_ms() -> Result<i64, Box<dyn Error>> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_millis())?)
}

fn receive(
    socket: &mut TcpStream,
    ours: VersionRange,
    dump: Option<&Path>,
) -> Result<GossipMessage, Box<dyn Error>> {
    let mut handshake = Vec::new();
    let (initiate, taken) = loop {
        let mut chunk = [0; 64];
        let read = socket.read(&mut chunk)?;
        handshake.extend_from_slice(&chunk[..read]);
        match Initiate::decode(&handshake)? {
            Some(whole) => break whole,
            None if read == 0 => return Err("the peer closed during the handshake".into()),
            None => {}
        }
    };
    println!("the peer connects: {initiate:?}");
    let response = initiate.respond(ours);
    socket.write_all(&response.accept.encode())?;
    let version = response.agreed?;
    let mut messages = InboundMessages::new(initiate.framing);
    messages.feed(&handshake[taken..]);
    let mut stream = handshake[taken..].to_vec();
    loop {
        if let Some(message) = messages.next_message()? {
            println!(
                "{} of {} bytes, id {}",
                message.header.verb,
                message.payload.len(),
                message.header.id
            );
            if message.header.verb == Verb::GossipDigestAck {
                if let Some(folder) = dump {
                    std::fs::create_dir_all(folder)?;
                    std::fs::write(folder.join("initiate.bin"), &handshake[..taken])?;
                    std::fs::write(folder.join("ack.bin"), &stream)?;
                }
                return Ok(GossipMessage::decode(
                    message.header.verb,
                    message.payload,
                    version,
                )?);
            }
        }
        let mut chunk = [0; 4096];
        let read = socket.read(&mut chunk)?;
        if read == 0 {
            return Err("the peer closed before it answered".into());
        }
        stream.extend_from_slice(&chunk[..read]);
        messages.feed(&chunk[..read]);
    }
}

fn print_states(states: &EndpointStates) -> Result<(), Box<dyn Error>> {
    for (endpoint, state) in states {
        println!(
            "{endpoint}\n  generation:{}\n  heartbeat:{}",
            state.heartbeat.generation, state.heartbeat.version
        );
        for (kind, value) in &state.states {
            if *kind == ApplicationState::Tokens {
                println!("  TOKENS:{}:{:?}", value.version, state.tokens()?);
            } else {
                println!("  {}:{}:{}", kind.name(), value.version, value.value);
            }
        }
    }
    Ok(())
}
