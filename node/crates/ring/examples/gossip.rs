//! Gossips with a running Cassandra (or Helenus) ring as a node without tokens, and prints what it
//! learns. Owns nothing and serves nothing; the ring forgets it half a minute after it ends.
//!
//! `cargo run -p helenus-ring --example gossip -- SEED OWN SECONDS [CLUSTER]`; OWN is a free local address.

use helenus_internode::gossip::GossipMessage;
use helenus_internode::handshake::ACCEPT_BYTES;
use helenus_internode::{
    Accept, ConnectionType, Framing, InboundMessages, Initiate, Message, MessagingVersion,
    OutboundMessages, Timeouts, VersionRange,
};
use helenus_ring::{GossipAction, GossipSettings, Gossiper, LocalNode, Moment, RingSnapshot};
use helenus_seams::{Clock, Entropy, RealClock, RealEntropy};
use helenus_types::{Endpoint, HostId};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

type Failure = Box<dyn Error + Send + Sync>;
type Received = (Endpoint, u64, GossipMessage);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |n: usize, default: &str| {
        arguments
            .get(n)
            .cloned()
            .unwrap_or_else(|| default.to_owned())
    };
    let seed = Endpoint::new(argument(0, "127.0.0.1").parse::<IpAddr>()?, 7000);
    let me = Endpoint::new(argument(1, "127.0.0.2").parse::<IpAddr>()?, 7000);
    let seconds: u64 = argument(2, "30").parse()?;
    let (clock, entropy) = (RealClock::new(), RealEntropy);

    let generation = i32::try_from(clock.now_in_seconds())?;
    let mut gossiper = Gossiper::new(
        GossipSettings::new(argument(3, "helenus"), me, vec![seed]),
        generation,
    );
    gossiper.set_local_node(&LocalNode {
        host_id: HostId(entropy.uuid_v4()),
        dc: "DC1".into(),
        rack: "observer".into(),
        release_version: "5.0.5".into(),
        messaging: MessagingVersion::V13,
        internal: me,
        native: SocketAddr::new(me.address(), 9042),
        schema: entropy.uuid_v4(),
        sstable_versions: "bti-da".into(),
    });
    gossiper.enable();

    let (sender, receiver) = channel();
    listen(me, sender)?;
    let mut edge = Edge {
        me,
        clock,
        links: BTreeMap::new(),
        next_id: 0,
    };
    edge.run(&mut gossiper, &receiver, &entropy, seconds);
    for member in gossiper.members() {
        println!(
            "{} {} {:?} {} tokens, dc {} rack {}, version {:?}",
            member.endpoint,
            if member.alive { "up" } else { "down" },
            member.status,
            member.tokens.len(),
            member.dc,
            member.rack,
            member.release_version
        );
    }
    let ring = RingSnapshot::of_members(me, &gossiper.members());
    for node in ring.nodes() {
        println!(
            "{} owns {:.4}",
            node.endpoint,
            ring.ownership(&node.endpoint)
        );
    }
    Ok(())
}

struct Edge {
    me: Endpoint,
    clock: RealClock,
    links: BTreeMap<Endpoint, (TcpStream, MessagingVersion)>,
    next_id: u64,
}

impl Edge {
    fn run(
        &mut self,
        gossiper: &mut Gossiper,
        receiver: &Receiver<Received>,
        entropy: &RealEntropy,
        seconds: u64,
    ) {
        let mut next_tick = Duration::ZERO;
        while self.clock.monotonic() < Duration::from_secs(seconds) {
            let wait = next_tick.saturating_sub(self.clock.monotonic());
            let now = Moment {
                monotonic: self.clock.monotonic(),
                wall_ms: self.clock.wall_micros() / 1000,
            };
            match receiver.recv_timeout(wait) {
                Ok((from, id, message)) => {
                    let actions = gossiper.receive(from, message, now, entropy);
                    self.act(actions, Some(id));
                }
                Err(RecvTimeoutError::Timeout) => {
                    next_tick += Duration::from_secs(1);
                    let actions = gossiper.tick(now, entropy);
                    self.act(actions, None);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn act(&mut self, actions: Vec<GossipAction>, answers: Option<u64>) {
        for action in actions {
            let GossipAction::Send { to, message } = action else {
                println!("{:6.1} {action:?}", self.clock.monotonic().as_secs_f64());
                continue;
            };
            self.next_id += 1;
            let id = if message == GossipMessage::EchoResponse {
                answers.unwrap_or(self.next_id)
            } else {
                self.next_id
            };
            if let Err(error) = self.send(to, id, &message) {
                println!("to {to}: {error}");
                self.links.remove(&to);
            }
        }
    }

    fn send(&mut self, to: Endpoint, id: u64, message: &GossipMessage) -> Result<(), Failure> {
        if !self.links.contains_key(&to) {
            let link = connect(to, self.me)?;
            self.links.insert(to, link);
        }
        let Some((socket, version)) = self.links.get_mut(&to) else {
            return Ok(());
        };
        let mut frames = OutboundMessages::new(Framing::Lz4);
        let now_ms = self.clock.wall_micros() / 1000;
        frames.push(&Message::new(
            id,
            message.verb(),
            message.encode(*version)?,
            now_ms,
            &Timeouts::default(),
        ))?;
        socket.write_all(&frames.take())?;
        Ok(())
    }
}

fn connect(to: Endpoint, me: Endpoint) -> Result<(TcpStream, MessagingVersion), Failure> {
    let mut socket = TcpStream::connect_timeout(&to.0, Duration::from_secs(1))?;
    let initiate = Initiate {
        accept: VersionRange::ALL,
        connection: ConnectionType::Urgent,
        framing: Framing::Lz4,
        from: me,
    };
    socket.write_all(&initiate.encode())?;
    let mut answer = [0; ACCEPT_BYTES];
    socket.read_exact(&mut answer)?;
    let version = Accept::decode(&answer)?
        .ok_or("no answer to the handshake")?
        .agreed(VersionRange::ALL)?;
    Ok((socket, version))
}

#[expect(
    clippy::disallowed_methods,
    reason = "an example has no node around it"
)]
fn listen(me: Endpoint, sender: Sender<Received>) -> Result<(), Failure> {
    let listener = TcpListener::bind(me.0)?;
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                if let Err(error) = receive(socket, &sender) {
                    println!("inbound connection: {error}");
                }
            });
        }
    });
    Ok(())
}

fn receive(mut socket: TcpStream, sender: &Sender<Received>) -> Result<(), Failure> {
    let mut start = Vec::new();
    let mut chunk = [0; 8192];
    let (initiate, taken) = loop {
        let read = socket.read(&mut chunk)?;
        start.extend_from_slice(&chunk[..read]);
        match Initiate::decode(&start)? {
            Some(whole) => break whole,
            None if read == 0 => return Ok(()),
            None => {}
        }
    };
    let response = initiate.respond(VersionRange::ALL);
    socket.write_all(&response.accept.encode())?;
    let version = response.agreed?;
    let mut messages = InboundMessages::new(initiate.framing);
    messages.feed(&start[taken..]);
    loop {
        while let Some(message) = messages.next_message()? {
            match GossipMessage::decode(message.header.verb, message.payload, version) {
                Ok(gossip) => sender.send((initiate.from, message.header.id, gossip))?,
                Err(_) => println!("{} sends {}", initiate.from, message.header.verb),
            }
        }
        let read = socket.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        messages.feed(&chunk[..read]);
    }
}
