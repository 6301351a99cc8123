//! Bodies that Apache Cassandra 5.0.5 sent, decoded and encoded again to the same bytes
//! (`golden/protocol.txt`), and frames against fixed bytes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use bytes::{Bytes, BytesMut};
use helenus_native::{
    Decoder, Envelope, ErrorResponse, FLAG_WARNING, Opcode, ProtocolVersion, Response,
    ResponseMessage, ResultBody,
};

const GOLDEN: &str = include_str!("golden/protocol.txt");

fn unhex(text: &str) -> Bytes {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

fn is_hex(text: &str) -> bool {
    text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Decodes and encodes; `None` when it does not read as that opcode with those flags to its end.
fn again(
    version: ProtocolVersion,
    opcode: Opcode,
    flags: u8,
    body: &Bytes,
) -> Option<(ResponseMessage, Bytes)> {
    let envelope = Envelope {
        version,
        flags,
        stream: 1,
        opcode,
        body: body.clone(),
    };
    let message = ResponseMessage::decode(&envelope).ok()?;
    let encoded = message.encode();
    (encoded.flags == flags && encoded.opcode == opcode).then_some((message, encoded.body))
}

#[test]
fn bodies_of_cassandra_round_trip() {
    let mut version = ProtocolVersion::V4;
    let mut opcode = None;
    let mut title = "";
    let mut counts = [0; 17];
    for line in GOLDEN.lines() {
        if let Some(rest) = line.strip_prefix("==== protocol v") {
            version = if rest.starts_with('5') {
                ProtocolVersion::V5
            } else {
                ProtocolVersion::V4
            };
        }
        if let Some((_, number)) = line.split_once("-> opcode ") {
            let number: u8 = number.split(' ').next().unwrap().parse().unwrap();
            opcode = Opcode::from_number(number);
            title = line;
            continue;
        }
        if line.starts_with("SUPPORTED body") {
            // Lists beta version 6, which this node does not speak; only read it.
            opcode = None;
        }
        let Some(hex) = line.strip_prefix("  ").filter(|hex| is_hex(hex)) else {
            continue;
        };
        let Some(opcode) = opcode.take() else {
            continue;
        };
        let body = unhex(hex);
        let round = [0, FLAG_WARNING]
            .into_iter()
            .filter_map(|flags| again(version, opcode, flags, &body))
            .find(|r| r.1 == body);
        assert!(
            round.is_some(),
            "{version} {title}: {hex}\n{:?}",
            again(version, opcode, 0, &body)
        );
        counts[usize::from(opcode.number())] += 1;
    }
    assert!(counts[8] > 80, "results: {}", counts[8]);
    assert!(counts[0] > 5, "errors: {}", counts[0]);
    assert!(counts[6] > 0 && counts[2] > 0, "{counts:?}");
}

/// Feeds the bytes of a first request and returns the bare answer to its error.
fn answer_to(first: &[u8]) -> Bytes {
    let error = Decoder::server()
        .feed(&mut BytesMut::from(first))
        .unwrap_err();
    assert!(error.fatal);
    error.unframed_answer()
}

#[test]
fn unsupported_versions_are_answered_as_cassandra_does() {
    for (number, answered) in [(1_u8, 0x81), (2, 0x82), (65, 0x85), (66, 0x85), (7, 0x85)] {
        let answer = answer_to(&[number, 0, 0, 1, 5, 0, 0, 0, 0]);
        assert_eq!(answer[..5], [answered, 0, 0, 0, 0], "{number}");
        let message =
            format!("Invalid or unsupported protocol version ({number}); supported versions are (");
        let text = String::from_utf8_lossy(&answer[9..]).into_owned();
        assert!(text.contains(&message), "{text}");
        assert_eq!(answer[9..13], [0, 0, 0, 0x0a]);
    }
}

#[test]
fn requests_of_wrong_kind_keep_the_connection() {
    let mut decoder = Decoder::server();
    let mut input = BytesMut::from(
        &[
            4_u8, 0, 0, 7, 0x30, 0, 0, 0, 1, 9, 4, 0, 0, 8, 5, 0, 0, 0, 0,
        ][..],
    );
    let error = decoder.feed(&mut input).unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.stream, error.fatal),
        ("Unknown opcode 48", 7, false)
    );
    assert_eq!(
        decoder.feed(&mut input).unwrap().unwrap().opcode,
        Opcode::Options
    );
    let mut input = BytesMut::from(&[0x84_u8, 0, 0, 7, 0x08, 0, 0, 0, 0][..]);
    assert!(
        decoder
            .feed(&mut input)
            .unwrap_err()
            .message
            .starts_with("Wrong protocol direction")
    );
}

#[test]
fn too_long_requests_are_skipped() {
    let mut decoder = Decoder::server().with_length_limit(20);
    let mut input = BytesMut::from(&[4_u8, 0, 0, 7, 7, 0, 0, 0, 30][..]);
    let error = decoder.feed(&mut input).unwrap_err();
    assert_eq!(
        error.message,
        "Request is too big: length 39 exceeds maximum allowed length 20."
    );
    assert!(matches!(error.response(), ErrorResponse::Invalid { .. }));
    input.extend_from_slice(&[0; 30]);
    input.extend_from_slice(&[4, 0, 0, 8, 5, 0, 0, 0, 0]);
    assert_eq!(decoder.feed(&mut input).unwrap().unwrap().stream, 8);
}

#[test]
fn older_versions_get_errors_that_they_know() {
    let error = ErrorResponse::CasWriteUnknown {
        message: "m".into(),
        consistency: helenus_types::ConsistencyLevel::Serial,
        received: 1,
        block_for: 2,
    };
    let body = |version| {
        ResponseMessage::new(version, 0, Response::Error(error.clone()))
            .encode()
            .body
    };
    assert_eq!(body(ProtocolVersion::V5)[..4], [0, 0, 0x17, 0]);
    assert_eq!(
        &body(ProtocolVersion::V4)[..],
        b"\0\0\x11\0\0\x01m\0\x08\0\0\0\x01\0\0\0\x02\0\x03CAS"
    );
}

#[test]
fn void_result_in_a_frame() {
    let mut encoder = helenus_native::Encoder::new();
    encoder.start(ProtocolVersion::V5, helenus_native::Compression::None);
    let mut out = BytesMut::new();
    let message = ResponseMessage::new(ProtocolVersion::V5, 1, Response::Result(ResultBody::Void));
    encoder.encode(&message.encode(), &mut out);
    assert!(out.is_empty());
    encoder.flush(&mut out);
    // 13 bytes, self-contained; the checksums are those that drivers compute.
    assert_eq!(out[..3], [13, 0, 2]);
    assert_eq!(out.len(), 3 + 3 + 13 + 4);
    let mut decoder = Decoder::client();
    decoder.start(ProtocolVersion::V5, helenus_native::Compression::None);
    let envelope = decoder.feed(&mut out).unwrap().unwrap();
    assert_eq!(ResponseMessage::decode(&envelope).unwrap(), message);
}
