//! Clients that break the protocol, send too much or never read: the server neither panics nor keeps
//! more than its bounds of them, and others are served meanwhile (V1, V2, B1).

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod support;

use helenus_native::{ErrorResponse, ProtocolVersion, Response};
use helenus_server::MAX_IN_FLIGHT;
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;
use support::{Client, TestServer, select};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Runs a test on one thread as a shard does, with a limit on its time.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_mins(1), test)
            .await
            .expect("the server stands still");
    });
}

/// Somebody else is served.
async fn check_served(server: &TestServer) {
    for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
        let mut client = Client::connect(server.address, version).await;
        client.send(3, select()).await;
        let answer = client.answer().await;
        assert!(
            matches!(answer, Some((3, Response::Result(_)))),
            "{answer:?}"
        );
    }
}

/// Deterministic rubbish.
fn rubbish(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    bytes.take(length).collect()
}

#[test]
fn rubbish_ends_only_its_own_connection() {
    run(async {
        let server = TestServer::start(10).await;
        for seed in 0..50 {
            let mut raw = TcpStream::connect(server.address).await.unwrap();
            // the server may have closed already
            drop(raw.write_all(&rubbish(seed, 500)).await);
            drop(raw.shutdown().await);
            let mut end = Vec::new();
            drop(raw.read_to_end(&mut end).await);
        }
        for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
            for seed in 0..50 {
                let mut client = Client::connect(server.address, version).await;
                drop(client.writer.write_all(&rubbish(seed, 500)).await);
                drop(client.writer.shutdown().await);
                let mut end = Vec::new();
                drop(client.reader.read_to_end(&mut end).await);
            }
        }
        check_served(&server).await;
    });
}

#[test]
fn a_request_that_is_too_long_is_refused_by_its_header() {
    run(async {
        let server = TestServer::start(10).await;
        let mut raw = TcpStream::connect(server.address).await.unwrap();
        // v4, no flags, stream 1, QUERY, two thousand million bytes to come
        raw.write_all(&[4, 0, 0, 1, 7, 0x77, 0, 0, 0])
            .await
            .unwrap();
        let mut header = [0; 9];
        raw.read_exact(&mut header).await.unwrap();
        assert_eq!((header[0], header[4]), (0x84, 0), "an ERROR of version 4");
        check_served(&server).await;
    });
}

#[test]
fn half_a_request_waits_without_harm() {
    run(async {
        let server = TestServer::start(10).await;
        let mut open = Vec::new();
        for cut in 1..60 {
            let mut client = Client::connect(server.address, ProtocolVersion::V5).await;
            let bytes = client.bytes(1, select());
            client.writer.write_all(&bytes[..cut]).await.unwrap();
            open.push(client);
        }
        check_served(&server).await;
        drop(open);
        check_served(&server).await;
    });
}

#[test]
fn ten_thousand_short_connections() {
    run(async {
        let server = TestServer::start(10).await;
        for _ in 0..10_000 {
            let mut raw = TcpStream::connect(server.address).await.unwrap();
            // OPTIONS, whose answer nobody waits for
            raw.write_all(&[4, 0, 0, 0, 5, 0, 0, 0, 0]).await.unwrap();
        }
        check_served(&server).await;
    });
}

#[test]
fn every_one_of_32768_requests_is_answered_once() {
    run(async {
        let server = TestServer::start(10).await;
        let mut client = Client::connect(server.address, ProtocolVersion::V5).await;
        let mut all = Vec::new();
        for stream in 0..=i16::MAX {
            all.extend_from_slice(&client.bytes(stream, select()));
        }
        let mut answers = client.into_answers(all);
        let mut answered = BTreeSet::new();
        while answered.len() < 32_768 {
            let (stream, response) = answers.next().await.expect("the connection ended");
            assert!(matches!(response, Response::Result(_)));
            assert!(answered.insert(stream), "stream {stream} twice");
        }
        check_served(&server).await;
    });
}

#[test]
fn a_client_that_never_reads_is_not_read_either() {
    run(async {
        // answers of 100,000 bytes
        let server = TestServer::start(100_000).await;
        let mut client = Client::connect(server.address, ProtocolVersion::V4).await;
        let bytes = client.bytes(1, select());
        let sending = tokio::task::spawn_local(async move {
            for _ in 0..100_000 {
                if client.writer.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            client
        });
        let mut before = usize::MAX;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let reads = server.backend.reads.get();
            if reads == before {
                break;
            }
            before = reads;
        }
        // what the kernel's buffers and the budget hold: far from all of the 100,000
        assert!(before < MAX_IN_FLIGHT * 3, "{before} requests ran");
        assert!(!sending.is_finished(), "the client could send everything");
        check_served(&server).await;
        sending.abort();
        check_served(&server).await;
    });
}

#[test]
fn requests_before_startup_and_a_second_startup_are_refused() {
    run(async {
        let server = TestServer::start(10).await;
        let mut client = Client::connect(server.address, ProtocolVersion::V4).await;
        let startup = helenus_native::Request::Startup {
            options: vec![("CQL_VERSION".into(), "3.4.7".into())],
        };
        client.send(9, startup).await;
        let answer = client.answer().await;
        assert!(
            matches!(
                answer,
                Some((9, Response::Error(ErrorResponse::Protocol { .. })))
            ),
            "{answer:?}"
        );
        check_served(&server).await;
    });
}
