//! A stand-in for a database node, for tests of the operator on a real API server: it founds, joins,
//! replaces and gossips like one, keeps its host id on its volume, serves `/v1/node` and health, and
//! stores nothing else. Only the standard library, so that it is one small static binary:
//! `rustc --edition 2024 -O --target x86_64-unknown-linux-musl operator/examples/fake_node.rs -o helenus`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    missing_docs,
    reason = "a test program"
)]

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DISK: &str = "/var/lib/helenus/fake";
const JOIN_MS: u128 = 3000;
const DOWN_MS: u128 = 5000;

/// What gossip knows of a host id.
#[derive(Clone)]
struct Entry {
    address: String,
    rack: String,
    state: String,
    beat: u128,
}

#[derive(Default)]
struct Node {
    host_id: String,
    state: String,
    message: String,
    founded: bool,
    join_began: u128,
    table: BTreeMap<String, Entry>,
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_millis())
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn new_uuid() -> String {
    let mut bytes = [0_u8; 16];
    let _ = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!(
        "{}-{}-4{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// One HTTP exchange; the body of the answer with its status.
fn http(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let to: SocketAddr = address.to_socket_addrs().ok()?.next()?;
    let mut socket = TcpStream::connect_timeout(&to, Duration::from_millis(700)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    let status = text.split(' ').nth(1)?.parse().ok()?;
    Some((status, text.split_once("\r\n\r\n")?.1.to_owned()))
}

/// `isSeed` and the addresses, or why not.
fn ask_for_seeds() -> Result<(bool, Vec<String>), String> {
    let url = var("HELENUS_SEED_URL");
    let rest = url.strip_prefix("http://").ok_or("no seed url")?;
    let (address, path) = rest.split_once('/').ok_or("no path in the seed url")?;
    let (status, body) =
        http(address, "GET", &format!("/{path}"), "").ok_or("the seed service does not answer")?;
    if status != 200 {
        return Err(format!(
            "the seed service says {status}: {}",
            body.replace('"', "'")
        ));
    }
    let list = body
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or("", |(list, _)| list);
    let seeds = list
        .split(',')
        .map(|one| one.trim_matches('"').to_owned())
        .filter(|one| !one.is_empty())
        .collect();
    Ok((body.contains("\"isSeed\":true"), seeds))
}

fn save(node: &Node) {
    let mut text = format!("{}\n{}\n{}\n", node.host_id, node.state, node.founded);
    text.push_str(&encode(&node.table));
    let _ = std::fs::write(format!("{DISK}.new"), text)
        .and_then(|()| std::fs::rename(format!("{DISK}.new"), DISK));
}

fn load() -> Node {
    let text = std::fs::read_to_string(DISK).unwrap_or_default();
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let (host_id, state, founded) = (next(), next(), next() == "true");
    let table = decode(&lines.collect::<Vec<_>>().join("\n"));
    let state = if state == "NORMAL" {
        state
    } else {
        "STARTING".to_owned()
    };
    Node {
        host_id,
        state,
        founded,
        table,
        ..Node::default()
    }
}

fn encode(table: &BTreeMap<String, Entry>) -> String {
    table.iter().fold(String::new(), |mut text, (id, one)| {
        let _ = writeln!(
            text,
            "{id} {} {} {} {}",
            one.address, one.rack, one.state, one.beat
        );
        text
    })
}

fn decode(text: &str) -> BTreeMap<String, Entry> {
    text.lines()
        .filter_map(|line| {
            let parts: Vec<_> = line.split(' ').collect();
            let [id, address, rack, state, beat] = parts.as_slice() else {
                return None;
            };
            let entry = Entry {
                address: (*address).to_owned(),
                rack: (*rack).to_owned(),
                state: (*state).to_owned(),
                beat: beat.parse().ok()?,
            };
            Some(((*id).to_owned(), entry))
        })
        .collect()
}

/// The newer word on each host id stays; LEFT is the last word.
fn merge(table: &mut BTreeMap<String, Entry>, other: BTreeMap<String, Entry>) {
    for (id, entry) in other {
        match table.get(&id) {
            Some(mine)
                if mine.state == "LEFT" || (mine.beat >= entry.beat && entry.state != "LEFT") => {}
            _ => {
                table.insert(id, entry);
            }
        }
    }
}

/// One round of the node's life.
fn tick(shared: &Mutex<Node>) {
    let (state, has_id) = {
        let node = shared.lock().unwrap();
        (node.state.clone(), !node.host_id.is_empty())
    };
    let mut seeds = Vec::new();
    if state != "JOINING" {
        match ask_for_seeds() {
            Ok((true, _)) if !has_id => {
                let mut node = shared.lock().unwrap();
                (node.host_id, node.state, node.founded) = (new_uuid(), "NORMAL".to_owned(), true);
                save(&node);
            }
            Ok((_, list)) if !list.is_empty() && state != "NORMAL" => {
                let mut node = shared.lock().unwrap();
                if node.host_id.is_empty() {
                    node.host_id = new_uuid();
                }
                (node.state, node.join_began) = ("JOINING".to_owned(), now());
                save(&node);
                seeds = list;
            }
            Ok((_, list)) => seeds = list,
            Err(why) if state != "NORMAL" => {
                let mut node = shared.lock().unwrap();
                (node.state, node.message) = ("WAITING_FOR_SEEDS".to_owned(), why);
            }
            Err(_) => {}
        }
    }
    gossip(shared, seeds);
}

fn gossip(shared: &Mutex<Node>, mut contacts: Vec<String>) {
    let (mine, text) = {
        let mut node = shared.lock().unwrap();
        if !matches!(node.state.as_str(), "JOINING" | "NORMAL") {
            return;
        }
        if node.state == "JOINING" && now() - node.join_began > JOIN_MS {
            (node.state, node.message) = ("NORMAL".to_owned(), String::new());
            let old = var("HELENUS_REPLACE_HOST_ID");
            if let Some(entry) = node.table.get_mut(&old) {
                (entry.state, entry.beat) = ("LEFT".to_owned(), now());
            }
            save(&node);
        }
        let me = Entry {
            address: var("HELENUS_BROADCAST_ADDRESS"),
            rack: var("HELENUS_RACK"),
            state: node.state.clone(),
            beat: now(),
        };
        let id = node.host_id.clone();
        node.table.insert(id, me);
        node.table
            .retain(|_, one| one.state != "JOINING" || now() - one.beat < 15_000);
        (var("HELENUS_BROADCAST_ADDRESS"), encode(&node.table))
    };
    contacts.extend(
        decode(&text)
            .into_values()
            .filter(|one| one.state != "LEFT")
            .map(|one| one.address),
    );
    contacts.sort();
    contacts.dedup();
    for address in contacts.into_iter().filter(|address| *address != mine) {
        if let Some((200, theirs)) = http(&format!("{address}:9180"), "POST", "/fake/gossip", &text)
        {
            let mut node = shared.lock().unwrap();
            merge(&mut node.table, decode(&theirs));
            save(&node);
        }
    }
}

fn report(node: &Node) -> String {
    let peers: Vec<_> = node
        .table
        .iter()
        .filter(|(id, _)| **id != node.host_id)
        .map(|(id, one)| {
            format!(
                r#"{{"hostId":"{id}","address":"{}","datacenter":"{}","rack":"{}","up":{},"state":"{}","tokens":16,"schemaVersion":null}}"#,
                one.address, var("HELENUS_DC"), one.rack, now() - one.beat < DOWN_MS && one.state != "LEFT", one.state
            )
        })
        .collect();
    let host_id = if node.host_id.is_empty() {
        "null".to_owned()
    } else {
        format!("\"{}\"", node.host_id)
    };
    format!(
        r#"{{"nodeName":"{}","hostId":{host_id},"clusterName":"{}","state":"{}","message":"{}","datacenter":"{}","rack":"{}","broadcastAddress":"{}","tokens":16,"releaseVersion":"5.0.5-fake","schemaVersion":null,"cqlReady":{},"founded":{},"peers":[{}]}}"#,
        var("HELENUS_NODE_NAME"),
        var("HELENUS_CLUSTER_NAME"),
        node.state,
        node.message.replace('\n', " "),
        var("HELENUS_DC"),
        var("HELENUS_RACK"),
        var("HELENUS_BROADCAST_ADDRESS"),
        node.state == "NORMAL",
        node.founded,
        peers.join(",")
    )
}

fn serve(mut socket: TcpStream, shared: &Mutex<Node>) -> std::io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut text = Vec::new();
    let mut chunk = [0_u8; 4096];
    let (head, mut body) = loop {
        let count = socket.read(&mut chunk)?;
        text.extend_from_slice(&chunk[..count]);
        let all = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = all.split_once("\r\n\r\n") {
            break (head.to_owned(), body.to_owned());
        }
        if count == 0 {
            return Ok(());
        }
    };
    let length = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.parse::<usize>().ok())
        .unwrap_or(0);
    while body.len() < length {
        let count = socket.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        body.push_str(&String::from_utf8_lossy(&chunk[..count]));
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let mut node = shared.lock().unwrap();
    let (status, answer) = match path {
        "/health/live" => (200, "live".to_owned()),
        "/health/ready" if node.state == "NORMAL" => (200, "ready".to_owned()),
        "/health/ready" => (503, node.state.clone()),
        "/v1/node" => (200, report(&node)),
        "/fake/gossip" => {
            merge(&mut node.table, decode(&body));
            (200, encode(&node.table))
        }
        _ => (404, String::new()),
    };
    drop(node);
    write!(
        socket,
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )
}

fn main() {
    let shared = Arc::new(Mutex::new(load()));
    println!(
        "fake node {} starts as {}",
        var("HELENUS_NODE_NAME"),
        shared.lock().unwrap().state
    );
    let listener = TcpListener::bind("0.0.0.0:9180").expect("listen on 9180");
    let for_server = shared.clone();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let shared = for_server.clone();
            thread::spawn(move || {
                let _ = serve(socket, &shared);
            });
        }
    });
    loop {
        tick(&shared);
        thread::sleep(Duration::from_millis(400));
    }
}
