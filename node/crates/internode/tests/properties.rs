//! Round trips of generated messages through every framing, and decoders against noise.
#![expect(clippy::unwrap_used, reason = "tests say so by failing")]

use helenus_internode::gossip::{
    GossipMessage, HeartBeatState, VersionedValue, decode_token_text, encode_token_text,
};
use helenus_internode::handshake::Response;
use helenus_internode::payload::{
    FailureReason, SnapshotCommand, TruncateRequest, TruncateResponse, decode_ping, encode_ping,
};
use helenus_internode::wire::{read_utf, write_utf};
use helenus_internode::{
    Accept, ConnectionType, DecodeError, EncodeError, Flags, FrameDecoder, Framing, Header,
    InboundMessages, Initiate, Message, MessagingVersion, OutboundMessages, Param, Timeouts, Verb,
    VersionRange,
};
use helenus_types::{Bytes, Endpoint, Reader, Token};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const FRAMINGS: [Framing; 3] = [Framing::Unprotected, Framing::Lz4, Framing::Crc];

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let address = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from)
    ];
    (address, any::<u16>()).prop_map(|(address, port)| Endpoint::new(address, port))
}

fn param() -> impl Strategy<Value = Param> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    prop_oneof![
        prop::collection::vec((endpoint(), any::<u64>()), 0..4).prop_map(Param::ForwardTo),
        endpoint().prop_map(Param::RespondTo),
        any::<u128>().prop_map(|n| Param::TraceSession(uuid::Uuid::from_u128(n))),
        any::<u8>().prop_map(Param::TraceType),
        any::<i32>().prop_map(Param::TombstoneWarning),
        any::<i64>().prop_map(Param::LocalReadSizeFail),
        prop::collection::btree_map(".{0,8}", bytes(), 0..4).prop_map(Param::CustomMap),
        bytes().prop_map(Param::SnapshotRanges),
    ]
}

fn message(max_payload: usize) -> impl Strategy<Value = Message> {
    let header = (
        any::<u64>(),
        prop::sample::select(Verb::ALL),
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
        prop::collection::vec(param(), 0..3),
    );
    // half of a payload is noise, half is zeros, so that LZ4 sometimes wins
    (
        header,
        prop::collection::vec(any::<u8>(), 0..=max_payload / 2),
    )
        .prop_map(
            |((id, verb, created_ms, expires_after_ms, flags, params), mut payload)| {
                payload.resize(payload.len() * 2, 0);
                Message {
                    header: Header {
                        id,
                        verb,
                        created_ms,
                        expires_after_ms,
                        flags: Flags(flags),
                        params,
                    },
                    payload: payload.into(),
                }
            },
        )
}

fn states() -> impl Strategy<Value = BTreeMap<Endpoint, helenus_internode::gossip::EndpointState>> {
    let value =
        (".{0,12}", any::<i32>()).prop_map(|(value, version)| VersionedValue { value, version });
    let kinds = (0..31_i32)
        .prop_map(|n| helenus_internode::gossip::ApplicationState::from_ordinal(n).unwrap());
    let state = (
        any::<(i32, i32)>(),
        prop::collection::btree_map(kinds, value, 0..5),
    )
        .prop_map(
            |((generation, version), states)| helenus_internode::gossip::EndpointState {
                heartbeat: HeartBeatState {
                    generation,
                    version,
                },
                states,
            },
        );
    prop::collection::btree_map(endpoint(), state, 0..4)
}

fn drain(inbound: &mut InboundMessages) -> Vec<Message> {
    std::iter::from_fn(|| inbound.next_message().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_survive_every_framing(messages in prop::collection::vec(message(300), 1..8), chunk in 1_usize..200) {
        for framing in FRAMINGS {
            let mut outbound = OutboundMessages::new(framing);
            let mut inbound = InboundMessages::new(framing);
            for message in &messages {
                outbound.push(message).unwrap();
            }
            let bytes = outbound.take();
            let mut received = Vec::new();
            for part in bytes.chunks(chunk) {
                inbound.feed(part);
                received.extend(drain(&mut inbound));
            }
            prop_assert_eq!(&received, &messages);
            prop_assert!(!inbound.is_mid_message());
        }
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        for framing in FRAMINGS {
            let mut frames = FrameDecoder::new(framing);
            frames.feed(&noise);
            while matches!(frames.next_frame(), Ok(Some(_))) {}
        }
        drop((Initiate::decode(&noise), Accept::decode(&noise), Message::decode(&mut Reader::copied(&noise))));
        for verb in Verb::ALL {
            for version in [MessagingVersion::V12, MessagingVersion::V13] {
                drop(GossipMessage::decode(*verb, Bytes::from(noise.clone()), version));
            }
        }
    }

    /// Valid messages with bytes changed get past the frame's checksum (as from a wrong peer).
    #[test]
    fn mutated_messages_never_panic(original in message(100), states in states(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mutate = |mut bytes: Vec<u8>| {
            for (index, value) in &changes {
                if !bytes.is_empty() {
                    let at = index.index(bytes.len());
                    bytes[at] = *value;
                }
            }
            bytes
        };
        drop(Message::decode(&mut Reader::copied(&mutate(original.encode().unwrap()))));
        let ack = GossipMessage::Ack2 { states };
        let payload = ack.encode(MessagingVersion::V13).unwrap();
        drop(GossipMessage::decode(Verb::GossipDigestAck2, mutate(payload.to_vec()).into(), MessagingVersion::V13));
    }

    #[test]
    fn gossip_round_trips(states in states(), cluster in ".{0,10}") {
        for version in [MessagingVersion::V12, MessagingVersion::V13] {
            let digests: Vec<_> = states.iter().map(|(e, s)| helenus_internode::gossip::GossipDigest { endpoint: *e, generation: s.heartbeat.generation, max_version: s.max_version() }).collect();
            let messages = [
                GossipMessage::Syn { cluster: cluster.clone(), partitioner: "p".into(), digests: digests.clone() },
                GossipMessage::Ack { digests, states: states.clone() },
                GossipMessage::Ack2 { states: states.clone() },
                GossipMessage::EchoRequest,
                GossipMessage::EchoResponse,
            ];
            for message in messages {
                let payload = message.encode(version).unwrap();
                prop_assert_eq!(GossipMessage::decode(message.verb(), payload, version).unwrap(), message);
            }
        }
    }

    #[test]
    fn texts_and_tokens_round_trip(text in any::<String>(), tokens in prop::collection::vec(any::<i64>(), 0..300)) {
        let mut out = Vec::new();
        write_utf(&mut out, &text).unwrap();
        prop_assert_eq!(read_utf(&mut Reader::copied(&out)).unwrap(), text);
        let tokens: Vec<Token> = tokens.into_iter().map(Token).collect();
        prop_assert_eq!(decode_token_text(&encode_token_text(&tokens)).unwrap(), tokens);
    }

    #[test]
    fn handshakes_round_trip(from in endpoint(), min in 0_u8..20, max in 12_u8..20, kind in 0_usize..4, framing in 0_usize..3, our_min in 12_u8..14, our_max in 12_u8..14) {
        let connection = [ConnectionType::Urgent, ConnectionType::Small, ConnectionType::Large, ConnectionType::Streaming][kind];
        let initiate = Initiate { accept: VersionRange { min, max }, connection, framing: FRAMINGS[framing], from };
        let mut bytes = initiate.encode().to_vec();
        for length in 0..bytes.len() {
            prop_assert_eq!(Initiate::decode(&bytes[..length]), Ok(None));
        }
        let length = bytes.len();
        bytes.extend_from_slice(b"first frame");
        prop_assert_eq!(Initiate::decode(&bytes), Ok(Some((initiate.clone(), length))));
        let ours = VersionRange { min: our_min.min(our_max), max: our_max };
        let Response { accept, agreed } = initiate.respond(ours);
        let received = Accept::decode(&accept.encode()).unwrap().unwrap();
        prop_assert_eq!(received, accept);
        if min <= max {
            // both sides come to the same decision
            prop_assert_eq!(received.agreed(initiate.accept).ok(), agreed.ok());
        }
    }
}

#[test]
fn large_messages_span_frames() {
    for framing in FRAMINGS {
        let payload: Vec<u8> = (0..400_000_u32)
            .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();
        let message = Message::new(
            7,
            Verb::ReadRsp,
            payload.into(),
            1_700_000_000_000,
            &Timeouts::default(),
        );
        let small = Message::new(
            8,
            Verb::EchoRsp,
            Bytes::new(),
            1_700_000_000_000,
            &Timeouts::default(),
        );
        let mut outbound = OutboundMessages::new(framing);
        for each in [&small, &message, &small] {
            outbound.push(each).unwrap();
        }
        let bytes = outbound.take();
        let mut inbound = InboundMessages::new(framing);
        let mut received = Vec::new();
        for chunk in bytes.chunks(10_000) {
            inbound.feed(chunk);
            received.extend(drain(&mut inbound));
        }
        received.sort_by_key(|m| m.header.id);
        assert_eq!(received, [message.clone(), small.clone(), small.clone()]);

        let mut limited = InboundMessages::new(framing).with_limit(100_000);
        limited.feed(&bytes);
        let error = std::iter::from_fn(|| Some(limited.next_message())).find_map(Result::err);
        assert!(
            matches!(
                error,
                Some(DecodeError::Oversized {
                    limit_bytes: 100_000,
                    ..
                })
            ),
            "{error:?}"
        );
        let refused = OutboundMessages::new(framing)
            .with_limit(100_000)
            .push(&message);
        assert!(matches!(refused, Err(EncodeError::Oversized { .. })));
    }
}

#[test]
fn an_unknown_verb_is_skipped() {
    let mut known = Message::new(
        1,
        Verb::MutationReq,
        Bytes::from_static(b"abc"),
        0,
        &Timeouts::default(),
    )
    .encode()
    .unwrap();
    let second = Message::new(2, Verb::EchoReq, Bytes::new(), 0, &Timeouts::default());
    // id, creation time, two bytes of expiry (2,000 ms), then the verb
    assert_eq!(known[7], 0);
    known[7] = 77;
    let mut outbound = OutboundMessages::new(Framing::Crc);
    outbound.push_encoded(&known).unwrap();
    outbound.push(&second).unwrap();
    let mut inbound = InboundMessages::new(Framing::Crc);
    inbound.feed(&outbound.take());
    let error = inbound.next_message().unwrap_err();
    assert_eq!(
        error,
        DecodeError::UnknownVerb {
            verb_id: 77,
            message_id: 1
        }
    );
    assert!(error.is_recoverable());
    assert_eq!(inbound.next_message(), Ok(Some(second)));
}

#[test]
fn small_payloads_round_trip() {
    for code in 0..8 {
        let reason = FailureReason::decode(Bytes::copy_from_slice(&[code])).unwrap();
        assert_eq!(
            (reason.code(), reason.encode()),
            (u16::from(code), Bytes::copy_from_slice(&[code]))
        );
    }
    assert_eq!(
        FailureReason::decode(Bytes::from_static(&[100])),
        Ok(FailureReason::Unknown)
    );
    for connection in [
        ConnectionType::Urgent,
        ConnectionType::Small,
        ConnectionType::Large,
    ] {
        assert_eq!(decode_ping(encode_ping(connection)), Ok(connection));
    }
    let snapshot = SnapshotCommand {
        keyspace: "ks".into(),
        table: "t".into(),
        name: "before".into(),
        clear: true,
    };
    assert_eq!(
        SnapshotCommand::decode(snapshot.encode().unwrap()),
        Ok(snapshot)
    );
    let request = TruncateRequest {
        keyspace: "ks".into(),
        table: "t".into(),
    };
    assert_eq!(
        TruncateRequest::decode(request.encode().unwrap()),
        Ok(request)
    );
    let response = TruncateResponse {
        keyspace: "ks".into(),
        table: "t".into(),
        success: false,
    };
    assert_eq!(
        TruncateResponse::decode(response.encode().unwrap()),
        Ok(response)
    );
}

#[test]
fn shutdown_has_a_payload_in_version_13_only() {
    let message = GossipMessage::Shutdown {
        state: Some(helenus_internode::gossip::EndpointState::default()),
    };
    assert!(message.encode(MessagingVersion::V12).unwrap().is_empty());
    let payload = message.encode(MessagingVersion::V13).unwrap();
    assert_eq!(
        GossipMessage::decode(Verb::GossipShutdown, payload, MessagingVersion::V13),
        Ok(message)
    );
    assert_eq!(
        GossipMessage::decode(Verb::GossipShutdown, Bytes::new(), MessagingVersion::V12),
        Ok(GossipMessage::Shutdown { state: None })
    );
}

#[test]
fn creation_times_are_rebuilt_across_the_wrap() {
    let timeouts = Timeouts::default();
    let wrap = 1_i64 << 32;
    for (sent, now) in [
        (wrap - 5, wrap + 7),
        (wrap + 7, wrap - 5),
        (1_700_000_000_123, 1_700_000_000_456),
    ] {
        assert_eq!(
            Header::new(1, Verb::ReadReq, sent, &timeouts).created_at_ms(now),
            sent
        );
    }
    // a clock that is an hour off is not believed
    assert_eq!(
        Header::new(1, Verb::ReadReq, 0, &timeouts).created_at_ms(3_600_000),
        3_600_000
    );
    let request = Message::new(9, Verb::ReadReq, Bytes::new(), 1_000, &timeouts);
    let response = Message::response_to(&request.header, Bytes::new(), 1_400).unwrap();
    assert_eq!(
        (
            response.header.id,
            response.header.verb,
            response.header.expires_after_ms
        ),
        (9, Verb::ReadRsp, 4_600)
    );
    assert!(Message::response_to(&response.header, Bytes::new(), 1_400).is_none());
}
