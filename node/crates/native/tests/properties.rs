//! N1 to N3 on generated messages and on bytes that are no messages.

use bytes::{Bytes, BytesMut};
use helenus_native::{
    Batch, BatchKind, BatchQuery, BoundValue, BoundValues, ColumnSpec, Compression, Decoder,
    Encoder, Envelope, ErrorResponse, Event, FLAG_CUSTOM_PAYLOAD, FLAG_TRACING, FLAG_WARNING,
    MAX_PAYLOAD, Opcode, Prepared, PreparedMetadata, ProtocolVersion, QueryParameters, Request,
    RequestMessage, Response, ResponseMessage, ResultBody, RowsMetadata, SchemaChange,
    SchemaChangeKind, SchemaChangeTarget, TopologyChange, WriteType,
};
use helenus_types::{ConsistencyLevel, CqlType, UserType};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;

fn version() -> impl Strategy<Value = ProtocolVersion> {
    prop::sample::select(ProtocolVersion::ALL.to_vec())
}

fn level() -> impl Strategy<Value = ConsistencyLevel> {
    prop::sample::select(ConsistencyLevel::ALL.map(|entry| entry.0).to_vec())
}

fn blob() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn bound_value() -> impl Strategy<Value = BoundValue> {
    prop_oneof![
        blob().prop_map(BoundValue::Value),
        Just(BoundValue::Null),
        Just(BoundValue::Unset)
    ]
}

fn bound_values() -> impl Strategy<Value = BoundValues> {
    prop_oneof![
        prop::collection::vec(bound_value(), 0..4).prop_map(BoundValues::Positional),
        prop::collection::vec(("[a-z]{0,5}", bound_value()), 1..4).prop_map(BoundValues::Named),
    ]
}

fn parameters() -> impl Strategy<Value = QueryParameters> {
    let times = (
        any::<Option<i32>>(),
        prop::option::of((i64::MIN + 1)..i64::MAX),
        prop::option::of(0..=i64::from(u32::MAX)),
    );
    (
        level(),
        bound_values(),
        any::<bool>(),
        prop::option::of(blob()),
        prop::option::of(level()),
        times,
        any::<Option<String>>(),
    )
        .prop_map(
            |(
                consistency,
                values,
                skip_metadata,
                paging_state,
                serial_consistency,
                times,
                keyspace,
            )| QueryParameters {
                consistency,
                values,
                skip_metadata,
                page_size: times.0,
                paging_state,
                serial_consistency,
                timestamp_micros: times.1,
                keyspace,
                now_in_seconds: times.2,
            },
        )
}

fn request() -> impl Strategy<Value = Request> {
    let query = prop_oneof![
        any::<String>().prop_map(BatchQuery::Text),
        blob().prop_map(BatchQuery::Prepared)
    ];
    let statement = (query, prop::collection::vec(bound_value(), 0..3));
    let kind = prop::sample::select(vec![
        BatchKind::Logged,
        BatchKind::Unlogged,
        BatchKind::Counter,
    ]);
    prop_oneof![
        Just(Request::Options),
        prop::collection::vec((any::<String>(), any::<String>()), 0..3)
            .prop_map(|options| Request::Startup { options }),
        prop::option::of(blob()).prop_map(|token| Request::AuthResponse { token }),
        (any::<String>(), parameters())
            .prop_map(|(query, parameters)| Request::Query { query, parameters }),
        (any::<String>(), any::<Option<String>>())
            .prop_map(|(query, keyspace)| Request::Prepare { query, keyspace }),
        (blob(), blob(), parameters()).prop_map(|(id, metadata_id, parameters)| Request::Execute {
            id,
            result_metadata_id: Some(metadata_id),
            parameters
        }),
        (kind, prop::collection::vec(statement, 0..3), parameters()).prop_map(
            |(kind, statements, parameters)| {
                Request::Batch(Batch {
                    kind,
                    statements,
                    parameters,
                })
            }
        ),
    ]
}

/// What is left of a request in an older version.
fn reduce(request: &mut Request, version: ProtocolVersion) {
    let reduce_value = |value: &mut BoundValue| {
        if version < ProtocolVersion::V4 && *value == BoundValue::Unset {
            *value = BoundValue::Null;
        }
    };
    let reduce_parameters = |parameters: &mut QueryParameters| {
        if version < ProtocolVersion::V5 {
            parameters.keyspace = None;
            parameters.now_in_seconds = None;
        }
        match &mut parameters.values {
            BoundValues::Positional(values) => values.iter_mut().for_each(reduce_value),
            BoundValues::Named(values) => values
                .iter_mut()
                .for_each(|value| reduce_value(&mut value.1)),
        }
    };
    match request {
        Request::Query { parameters, .. } => reduce_parameters(parameters),
        Request::Execute {
            parameters,
            result_metadata_id,
            ..
        } => {
            reduce_parameters(parameters);
            result_metadata_id.take_if(|_| version < ProtocolVersion::V5);
        }
        Request::Prepare { keyspace, .. } => {
            keyspace.take_if(|_| version < ProtocolVersion::V5);
        }
        Request::Batch(batch) => {
            reduce_parameters(&mut batch.parameters);
            batch
                .statements
                .iter_mut()
                .flat_map(|statement| &mut statement.1)
                .for_each(reduce_value);
        }
        _ => {}
    }
}

fn cql_type() -> impl Strategy<Value = CqlType> {
    let simple = prop::sample::select(vec![
        CqlType::Int,
        CqlType::Text,
        CqlType::Duration,
        CqlType::Date,
        CqlType::TinyInt,
        CqlType::Custom("com.example.Strange".into()),
    ]);
    simple.prop_recursive(3, 8, 3, |inner| {
        let frozen = inner.clone().prop_map(|t: CqlType| Arc::new(t.freeze()));
        prop_oneof![
            frozen.clone().prop_map(|element| CqlType::List {
                element,
                frozen: false
            }),
            frozen.clone().prop_map(|element| CqlType::Set {
                element,
                frozen: false
            }),
            (frozen.clone(), frozen.clone()).prop_map(|(key, value)| CqlType::Map {
                key,
                value,
                frozen: false
            }),
            (frozen, 1..9_u32)
                .prop_map(|(element, dimension)| CqlType::Vector { element, dimension }),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|elements| CqlType::Tuple(
                elements.iter().map(CqlType::freeze).collect()
            )),
            prop::collection::vec(("[a-z]{1,3}", inner), 1..3).prop_map(|fields| CqlType::Udt(
                Arc::new(UserType {
                    keyspace: "ks".into(),
                    name: "Tp".into(),
                    fields,
                    frozen: false
                })
            )),
        ]
    })
}

/// The notation does not say whether a type is frozen: compare as if all were.
fn thaw(message: &ResponseMessage) -> String {
    format!("{message:?}").replace("frozen: false", "frozen: true")
}

fn columns() -> impl Strategy<Value = Vec<ColumnSpec>> {
    let column = ("[ab]", "[tu]", "[a-z]{1,4}", cql_type());
    prop::collection::vec(column, 1..4).prop_map(|columns| {
        let spec = |(keyspace, table, name, cql_type)| ColumnSpec {
            keyspace,
            table,
            name,
            cql_type,
        };
        columns.into_iter().map(spec).collect()
    })
}

fn rows() -> impl Strategy<Value = ResultBody> {
    (
        columns(),
        prop::collection::vec(prop::option::of(blob()), 0..9),
        prop::option::of(blob()),
    )
        .prop_map(|(columns, values, paging_state)| {
            let rows = values
                .chunks_exact(columns.len())
                .map(<[_]>::to_vec)
                .collect();
            ResultBody::Rows {
                metadata: RowsMetadata {
                    paging_state,
                    ..RowsMetadata::new(columns)
                },
                rows,
            }
        })
}

fn response() -> impl Strategy<Value = Response> {
    let node = any::<(std::net::IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip, port));
    let change = (any::<String>(), any::<String>()).prop_map(|(keyspace, name)| SchemaChange {
        kind: SchemaChangeKind::Updated,
        keyspace,
        target: SchemaChangeTarget::Table(name),
    });
    let counts = (any::<String>(), level(), any::<i32>(), any::<i32>());
    let error = counts.prop_map(|(message, consistency, received, block_for)| {
        ErrorResponse::WriteTimeout {
            message,
            consistency,
            received,
            block_for,
            write_type: WriteType::BatchLog,
            contentions: None,
        }
    });
    prop_oneof![
        Just(Response::Ready),
        Just(Response::supported("3.4.7")),
        any::<String>().prop_map(|authenticator| Response::Authenticate { authenticator }),
        error.prop_map(Response::Error),
        rows().prop_map(Response::Result),
        any::<String>().prop_map(|keyspace| Response::Result(ResultBody::SetKeyspace(keyspace))),
        change
            .clone()
            .prop_map(|change| Response::Result(ResultBody::SchemaChange(change))),
        change.prop_map(|change| Response::Event(Event::Schema(change))),
        node.prop_map(|node| Response::Event(Event::Topology {
            change: TopologyChange::MovedNode,
            node
        })),
        (blob(), columns(), columns()).prop_map(|(id, markers, columns)| {
            Response::Result(ResultBody::Prepared(Box::new(Prepared {
                id: id.clone(),
                result_metadata_id: None,
                markers: PreparedMetadata {
                    columns: markers,
                    partition_key_indexes: Vec::new(),
                },
                columns: RowsMetadata::new(columns),
            })))
        }),
    ]
}

fn compression(version: ProtocolVersion, choice: u8) -> Compression {
    match choice % 3 {
        0 => Compression::None,
        1 if version < ProtocolVersion::V5 => Compression::Snappy,
        _ => Compression::Lz4,
    }
}

fn pair(version: ProtocolVersion, choice: u8, decoder: Decoder) -> (Encoder, Decoder) {
    let (mut encoder, mut decoder) = (Encoder::new(), decoder);
    encoder.start(version, compression(version, choice));
    decoder.start(version, compression(version, choice));
    (encoder, decoder)
}

proptest! {
    #[test]
    fn requests_round_trip(version in version(), stream in any::<i16>(), tracing in any::<bool>(), mut request in request()) {
        let mut message = RequestMessage::new(version, stream, request.clone());
        message.tracing = tracing;
        let decoded = RequestMessage::decode(&message.encode()).unwrap();
        reduce(&mut request, version);
        prop_assert_eq!(decoded, RequestMessage { request, ..message });
    }

    #[test]
    fn responses_round_trip(version in version(), response in response(), warnings in prop::collection::vec(any::<String>(), 0..2)) {
        let mut message = ResponseMessage::new(version, 3, response);
        if version >= ProtocolVersion::V4 {
            message.warnings = warnings;
        }
        let mut decoded = ResponseMessage::decode(&message.encode()).unwrap();
        if let Response::Result(ResultBody::Prepared(prepared)) = &mut decoded.response {
            prepared.result_metadata_id = None;
        }
        prop_assert_eq!(thaw(&decoded), thaw(&message));
    }

    #[test]
    fn connections_carry_messages(
        version in version(), choice in any::<u8>(), lengths in prop::collection::vec(0..3_usize, 1..6), cut in 1..5000_usize,
    ) {
        let (mut encoder, mut decoder) = pair(version, choice, Decoder::client());
        let mut sent = Vec::new();
        let mut wire = BytesMut::new();
        for (stream, length) in (0_i16..).zip(lengths) {
            let keyspace = "x\u{e9}".repeat([1, 500, MAX_PAYLOAD][length]);
            let message = ResponseMessage::new(version, stream, Response::Result(ResultBody::Rows {
                metadata: RowsMetadata { column_count: 1, no_metadata: true, ..RowsMetadata::default() },
                rows: vec![vec![Some(keyspace.into())]],
            }));
            encoder.encode(&message.encode(), &mut wire);
            sent.push(message);
        }
        encoder.flush(&mut wire);
        let mut input = BytesMut::new();
        let mut received = Vec::new();
        for part in wire.chunks(cut) {
            input.extend_from_slice(part);
            while let Some(envelope) = decoder.feed(&mut input).unwrap() {
                received.push(ResponseMessage::decode(&envelope).unwrap());
            }
        }
        prop_assert_eq!(received, sent);
    }

    #[test]
    fn random_bytes_never_panic(
        version in version(), flags in any::<u8>(), number in 0..0x11_u8, body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let Some(opcode) = Opcode::from_number(number) else { return Ok(()) };
        let flags = flags & (FLAG_TRACING | FLAG_WARNING | FLAG_CUSTOM_PAYLOAD);
        let envelope = Envelope { version, flags, stream: 0, opcode, body: body.into() };
        drop(RequestMessage::decode(&envelope));
        drop(ResponseMessage::decode(&envelope));
    }

    #[test]
    fn changed_messages_never_panic(
        version in version(), choice in any::<u8>(), response in response(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut envelope = ResponseMessage::new(version, 3, response).encode();
        let mut body = envelope.body.to_vec();
        if !body.is_empty() {
            let at = at.index(body.len());
            body[at] = byte;
        }
        envelope.body = body.into();
        drop(ResponseMessage::decode(&envelope));
        let (mut encoder, mut decoder) = pair(version, choice, Decoder::client());
        let mut wire = BytesMut::new();
        encoder.encode(&envelope, &mut wire);
        encoder.flush(&mut wire);
        let at = at.index(wire.len());
        wire[at] ^= byte;
        while let Ok(Some(_)) = decoder.feed(&mut wire) {}
    }

    #[test]
    fn random_streams_never_panic(framed in any::<bool>(), choice in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let version = if framed { ProtocolVersion::V5 } else { ProtocolVersion::V4 };
        let (_, mut decoder) = pair(version, choice, Decoder::server());
        let mut input = BytesMut::from(&bytes[..]);
        for _ in 0..300 {
            match decoder.feed(&mut input) {
                Ok(Some(envelope)) => drop(RequestMessage::decode(&envelope)),
                Err(error) if !error.fatal => {}
                _ => break,
            }
        }
    }
}
