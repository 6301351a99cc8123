//! Bytes of real Cassandra nodes (see `golden/README.md`) decode to what the nodes say of
//! themselves, and encode back to the same bytes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests say so by failing")]

use helenus_internode::gossip::{ApplicationState, GossipMessage};
use helenus_internode::{
    ConnectionType, Framing, InboundMessages, Initiate, Message, MessagingVersion,
    OutboundMessages, Verb, VersionRange,
};
use helenus_types::Endpoint;

struct Golden {
    initiate: &'static [u8],
    ack: &'static [u8],
    version: MessagingVersion,
    framing: Framing,
    accept: VersionRange,
    sstable_versions: &'static str,
}

const V12: Golden = Golden {
    initiate: include_bytes!("golden/v12/initiate.bin"),
    ack: include_bytes!("golden/v12/ack.bin"),
    version: MessagingVersion::V12,
    framing: Framing::Lz4,
    accept: VersionRange::V12,
    sstable_versions: "big-nb",
};
const V13: Golden = Golden {
    initiate: include_bytes!("golden/v13/initiate.bin"),
    ack: include_bytes!("golden/v13/ack.bin"),
    version: MessagingVersion::V13,
    framing: Framing::Crc,
    accept: VersionRange::ALL,
    sstable_versions: "big-oa",
};

fn check(golden: &Golden) {
    let node = Endpoint("127.0.40.41:7000".parse().unwrap());
    let (initiate, taken) = Initiate::decode(golden.initiate).unwrap().unwrap();
    let expected = Initiate {
        accept: golden.accept,
        connection: ConnectionType::Urgent,
        framing: golden.framing,
        from: node,
    };
    assert_eq!((&initiate, taken), (&expected, golden.initiate.len()));
    assert_eq!(&initiate.encode()[..], golden.initiate);
    assert_eq!(
        initiate.respond(VersionRange::ALL).agreed,
        Ok(golden.version)
    );

    let message = only_message(golden.framing, golden.ack);
    assert_eq!(message.header.verb, Verb::GossipDigestAck);
    let decoded =
        GossipMessage::decode(message.header.verb, message.payload.clone(), golden.version)
            .unwrap();
    let GossipMessage::Ack { digests, states } = &decoded else {
        panic!("{decoded:?}")
    };
    assert!(digests.is_empty());
    let state = &states[&node];
    assert_eq!(state.get(ApplicationState::ReleaseVersion), Some("5.0.5"));
    assert_eq!(
        state.get(ApplicationState::NetVersion),
        Some(golden.version.number().to_string().as_str())
    );
    assert_eq!(
        state.get(ApplicationState::SstableVersions),
        Some(golden.sstable_versions)
    );
    let tokens = state.tokens().unwrap();
    assert_eq!(tokens.len(), 16);
    assert_eq!(state.status(), format!("NORMAL,{}", tokens[0]));
    // 12 and 13 differ in nothing that stands in this message; the order of states is that of ordinals
    assert_eq!(decoded.encode(golden.version).unwrap(), message.payload);

    let mut outbound = OutboundMessages::new(golden.framing);
    outbound.push(&message).unwrap();
    let sent = outbound.take();
    if golden.framing == Framing::Crc {
        assert_eq!(&sent[..], golden.ack);
    }
    assert_eq!(only_message(golden.framing, &sent), message);
}

fn only_message(framing: Framing, bytes: &[u8]) -> Message {
    let mut inbound = InboundMessages::new(framing);
    inbound.feed(bytes);
    let message = inbound.next_message().unwrap().unwrap();
    assert_eq!(inbound.next_message(), Ok(None));
    assert!(!inbound.is_mid_message());
    message
}

#[test]
fn version_12_with_lz4() {
    check(&V12);
}

#[test]
fn version_13_with_crc() {
    check(&V13);
}

#[test]
fn one_flipped_bit_is_never_accepted() {
    for golden in [V12, V13] {
        for position in 0..golden.ack.len() * 8 {
            let mut bytes = golden.ack.to_vec();
            bytes[position / 8] ^= 1 << (position % 8);
            let mut inbound = InboundMessages::new(golden.framing);
            inbound.feed(&bytes);
            assert!(
                matches!(inbound.next_message(), Err(_) | Ok(None)),
                "bit {position}"
            );
        }
        for position in 0..golden.initiate.len() * 8 {
            let mut bytes = golden.initiate.to_vec();
            bytes[position / 8] ^= 1 << (position % 8);
            assert!(
                matches!(Initiate::decode(&bytes), Err(_) | Ok(None)),
                "bit {position}"
            );
        }
    }
}
