//! The client's side against a real Cassandra, to prove frames, checksums and compression: set
//! `HELENUS_TEST_CASSANDRA` to the `address:port` of one (5.0); without it the test says that it is skipped.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

use bytes::BytesMut;
use helenus_native::client::ClientConnection;
use helenus_native::{
    Compression, ProtocolVersion, QueryParameters, Request, Response, ResponseMessage, ResultBody,
};
use helenus_types::ConsistencyLevel;
use std::io::{Read, Write};
use std::net::TcpStream;

fn ask(
    socket: &mut TcpStream,
    connection: &mut ClientConnection,
    request: Request,
) -> ResponseMessage {
    let mut out = BytesMut::new();
    connection.send(7, request, &mut out);
    socket.write_all(&out).unwrap();
    let mut buffer = vec![0; 65536];
    loop {
        if let Some(message) = connection.next_message().unwrap() {
            assert_eq!(message.stream, 7);
            return message;
        }
        let count = socket.read(&mut buffer).unwrap();
        assert!(count > 0, "the server closed the connection");
        connection.receive(&buffer[..count]);
    }
}

fn rows(socket: &mut TcpStream, connection: &mut ClientConnection, query: String) -> usize {
    let mut parameters = QueryParameters::new(ConsistencyLevel::One);
    parameters.page_size = Some(100_000);
    match ask(socket, connection, Request::Query { query, parameters }).response {
        Response::Result(ResultBody::Rows { metadata, rows }) => {
            assert_eq!(metadata.columns.len(), metadata.column_count);
            rows.iter().flatten().flatten().map(bytes::Bytes::len).sum()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_real_cassandra_answers() {
    let Ok(address) = std::env::var("HELENUS_TEST_CASSANDRA") else {
        eprintln!("skipped: HELENUS_TEST_CASSANDRA is not set");
        return;
    };
    for version in ProtocolVersion::ALL {
        for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
            if version == ProtocolVersion::V5 && compression == Compression::Snappy {
                continue;
            }
            let mut socket = TcpStream::connect(&address).unwrap();
            let mut connection = ClientConnection::new(version, compression);
            let startup = connection.startup("3.0.0");
            let ready = ask(&mut socket, &mut connection, startup).response;
            assert_eq!(ready, Response::Ready, "{version} {compression:?}");
            // A request and an answer that each span several frames.
            let local = format!("/* {} */ SELECT * FROM system.local", "x".repeat(300_000));
            assert!(rows(&mut socket, &mut connection, local) > 500);
            let functions: usize = (0..3)
                .map(|_| {
                    rows(
                        &mut socket,
                        &mut connection,
                        "SELECT * FROM system_schema.columns".into(),
                    )
                })
                .sum();
            assert!(functions > 30_000, "{functions}");
            let request = Request::Prepare {
                query: "SELECT * FROM system.local WHERE key = ?".into(),
                keyspace: None,
            };
            let prepared = match ask(&mut socket, &mut connection, request).response {
                Response::Result(ResultBody::Prepared(prepared)) => prepared,
                other => panic!("{other:?}"),
            };
            let mut parameters = QueryParameters::new(ConsistencyLevel::One);
            let key = helenus_native::BoundValue::Value("local".into());
            parameters.values = helenus_native::BoundValues::Positional(vec![key]);
            let (id, result_metadata_id) =
                (prepared.id.clone(), prepared.result_metadata_id.clone());
            let answer = ask(
                &mut socket,
                &mut connection,
                Request::Execute {
                    id,
                    result_metadata_id,
                    parameters,
                },
            );
            assert!(
                matches!(&answer.response, Response::Result(ResultBody::Rows { rows, .. }) if rows.len() == 1)
            );
        }
    }
}
