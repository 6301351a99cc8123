//! Statements through preparation, binding and execution.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test may panic"
)]

mod support;

use bytes::Bytes;
use helenus_cql::{
    BindContext, BoundValue, BoundValues, Plan, ResultRows, parse, prepare, prepared_id,
    result_metadata_id,
};
use helenus_rows::{ClusteringFilter, Partition, ReadCommand, ReadKind, Unfiltered};
use helenus_schema::Schema;
use proptest::prelude::*;
use std::collections::BTreeMap;
use support::{applied, context, fresh, golden_schema, run};

/// A store of one node without any disk: enough to answer read commands.
#[derive(Default)]
struct Store(BTreeMap<helenus_schema::TableId, BTreeMap<helenus_types::DecoratedKey, Partition>>);

impl Store {
    fn write(&mut self, plan: Plan) {
        let Plan::Write { mutations, .. } = plan else {
            panic!("no write")
        };
        for update in mutations.into_iter().flat_map(|mutation| mutation.updates) {
            let table = self.0.entry(update.table.id).or_default();
            let both = table
                .remove(&update.partition.key)
                .into_iter()
                .chain([update.partition])
                .collect();
            if let Some(merged) = helenus_rows::merge::merge_partitions(&update.table, both, false)
            {
                table.insert(merged.key.clone(), merged);
            }
        }
    }

    fn read(&self, command: &ReadCommand) -> Vec<Partition> {
        let Some(table) = self.0.get(&command.table.id) else {
            return Vec::new();
        };
        let part = |partition: &Partition, filter: &ClusteringFilter, resume: bool| {
            let mut partition = partition.clone();
            let _ = resume;
            partition.unfiltereds.retain(|unfiltered| match unfiltered {
                Unfiltered::Row(row) => filter.includes(&row.clustering, &command.table),
                Unfiltered::Marker(_) => false,
            });
            if filter.is_reversed() {
                partition.unfiltereds.reverse();
            }
            partition
        };
        match &command.kind {
            ReadKind::Partition { key, filter } => table
                .get(key)
                .map(|partition| part(partition, filter, false))
                .into_iter()
                .collect(),
            ReadKind::Range(range) => {
                let mut found: Vec<Partition> = Vec::new();
                for (key, partition) in table.iter().filter(|(key, _)| range.contains(key)) {
                    let mut partition = part(partition, &range.filter, false);
                    if let (Some(resume), true) = (&range.resume_after, found.is_empty()) {
                        assert!(matches!(
                            &range.start,
                            helenus_rows::PartitionPosition::Key {
                                inclusive: true,
                                ..
                            }
                        ));
                        partition.unfiltereds.retain(|u| {
                            u.as_row().is_some_and(|row| {
                                row.clustering
                                    .compare(&resume.clustering, &command.table)
                                    .is_gt()
                            })
                        });
                    }
                    let _ = key;
                    found.push(partition);
                }
                found
            }
        }
    }

    fn select(&self, schema: &Schema, text: &str, context: &BindContext) -> ResultRows {
        let prepared =
            prepare(text, schema, Some("ks")).unwrap_or_else(|error| panic!("{text}: {error}"));
        let plan = prepared
            .bind(&BoundValues::default(), context, schema)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let Plan::Read(plan) = plan else {
            panic!("no read")
        };
        let mut execution = plan.start();
        loop {
            let commands = execution.next_commands(4);
            if commands.is_empty() {
                return execution.finish().unwrap();
            }
            let answers: Vec<_> = commands.iter().map(|command| self.read(command)).collect();
            execution.feed(&answers).unwrap();
        }
    }
}

fn shown(result: &ResultRows) -> String {
    let value = |(value, spec): (&Option<Bytes>, &helenus_cql::ColumnSpec)| {
        value.as_ref().map_or("null".to_owned(), |bytes| {
            spec.cql_type.format_literal(bytes).unwrap()
        })
    };
    let row = |row: &Vec<Option<Bytes>>| {
        row.iter()
            .zip(result.columns.iter())
            .map(value)
            .collect::<Vec<_>>()
            .join(",")
    };
    result.rows.iter().map(row).collect::<Vec<_>>().join("; ")
}

fn filled() -> (Schema, Store) {
    let mut schema = golden_schema();
    let mut store = Store::default();
    for a in [1, 2] {
        for c in 0..5 {
            let text = format!("INSERT INTO ks.t (a, b, c, v) VALUES ({a}, 'x', {c}, 'v{c}')");
            let plan = run(&mut schema, &text, None).unwrap();
            store.write(plan);
        }
    }
    let plan = run(&mut schema, "INSERT INTO ks.t (a, s) VALUES (3, 33)", None).unwrap();
    store.write(plan);
    let plan = run(&mut schema, "INSERT INTO ks.alltypes (k, c_list, c_set, c_map, c_udt2, c_tuple) VALUES (1, [3,1], {'b','a'}, {'k': 1}, {street: 's', zip: 5}, (1,'x'))", None).unwrap();
    store.write(plan);
    (schema, store)
}

#[test]
fn selects() {
    let (schema, store) = filled();
    let check = |text: &str, expected: &str| {
        assert_eq!(
            shown(&store.select(&schema, text, &context())),
            expected,
            "{text}"
        );
    };
    check(
        "SELECT c, v FROM t WHERE a = 1 AND b = 'x' AND c > 2",
        "3,'v3'; 4,'v4'",
    );
    check(
        "SELECT c FROM t WHERE a = 1 ORDER BY b DESC LIMIT 2",
        "4; 3",
    );
    check(
        "SELECT c FROM t WHERE a = 1 AND b = 'x' AND c IN (4, 0, 9)",
        "0; 4",
    );
    check("SELECT c FROM t WHERE a = 1 AND (b, c) >= ('x', 3)", "3; 4");
    check("SELECT * FROM t WHERE a = 3", "3,null,null,33,null");
    check(
        "SELECT a, c FROM t WHERE a IN (1, 2) AND b = 'x' AND c = 0",
        "1,0; 2,0",
    );
    check(
        "SELECT a, c FROM t WHERE a IN (2, 1) ORDER BY b DESC LIMIT 3",
        "1,4; 2,4; 1,4"
            .replace("1,4; 2,4; 1,4", "1,4; 1,3; 1,2")
            .as_str(),
    );
    check(
        "SELECT count(*), min(c), max(c), sum(c), avg(c) FROM t WHERE a = 1",
        "5,0,4,10,2",
    );
    check("SELECT count(*) FROM t WHERE a = 77", "0");
    check(
        "SELECT a, b, sum(c) FROM t WHERE a = 2 GROUP BY a, b",
        "2,'x',10",
    );
    check(
        "SELECT JSON a, s FROM t WHERE a = 3",
        "'{\"a\": 3, \"s\": 33}'",
    );
    check(
        "SELECT cast(c AS text), c + 1 FROM t WHERE a = 1 AND b = 'x' AND c = 2",
        "'2',3",
    );
    check(
        "SELECT writetime(v), ttl(v) FROM t WHERE a = 1 AND b = 'x' AND c = 2",
        "1700000000000000,null",
    );
    check(
        "SELECT c_list, c_set, c_map, c_udt2, c_tuple, c_map['k'], c_udt2.zip FROM alltypes WHERE k = 1",
        "[3, 1],{'a', 'b'},{'k': 1},{street: 's', zip: 5},(1, 'x'),1,5",
    );
    check(
        "SELECT DISTINCT a FROM t WHERE token(a) >= token(1) AND token(a) <= token(1)",
        "1",
    );
    check(
        "SELECT token(a) FROM t WHERE a = 1 PER PARTITION LIMIT 1",
        "-4069959284402364209",
    );
}

#[test]
fn pages_give_every_row_once() {
    let (schema, store) = filled();
    for text in [
        "SELECT a, c FROM t",
        "SELECT a, c FROM t WHERE a IN (1, 2, 3)",
        "SELECT a, c FROM t WHERE a = 1",
        "SELECT a, c FROM t LIMIT 7",
        "SELECT a, c FROM t PER PARTITION LIMIT 2",
        "SELECT c FROM t WHERE a = 2 ORDER BY b DESC, c DESC",
        "SELECT DISTINCT a FROM t",
    ] {
        let whole = store.select(&schema, text, &context()).rows;
        for size in 1..6 {
            let (mut rows, mut state) = (Vec::new(), None);
            for _ in 0..40 {
                let result = store.select(
                    &schema,
                    text,
                    &BindContext {
                        page_size: Some(size),
                        paging_state: state,
                        ..context()
                    },
                );
                assert!(result.rows.len() <= usize::try_from(size).unwrap());
                rows.extend(result.rows);
                state = result.paging_state;
                if state.is_none() {
                    break;
                }
            }
            assert_eq!(rows, whole, "{text} by {size}");
        }
    }
}

#[test]
fn writes_and_deletes() {
    let (mut schema, mut store) = filled();
    let mut later = |text: &str| {
        let plan =
            prepare(text, &schema, Some("ks")).unwrap_or_else(|error| panic!("{text}: {error}"));
        let context = BindContext {
            timestamp_micros: 1_700_000_000_000_100,
            ..context()
        };
        store.write(
            plan.bind(&BoundValues::default(), &context, &schema)
                .unwrap(),
        );
    };
    later("DELETE FROM t WHERE a = 1 AND b = 'x' AND c >= 3");
    later("DELETE v FROM t WHERE a = 1 AND b = 'x' AND c = 0");
    later(
        "UPDATE alltypes SET c_list = c_list + [9], c_set = c_set - {'a'}, c_map['z'] = 26, c_udt2.zip = 6 WHERE k = 1",
    );
    later("UPDATE alltypes SET c_list = [0] + c_list WHERE k = 1");
    later(
        "BEGIN BATCH DELETE FROM t WHERE a = 2; INSERT INTO t JSON '{\"a\": 9, \"b\": \"y\", \"c\": 1, \"v\": \"w\"}'; APPLY BATCH",
    );
    let check = |text: &str, expected: &str| {
        assert_eq!(
            shown(&store.select(&schema, text, &context())),
            expected,
            "{text}"
        );
    };
    check("SELECT c, v FROM t WHERE a = 1", "0,null; 1,'v1'; 2,'v2'");
    check(
        "SELECT c_list, c_set, c_map, c_udt2 FROM alltypes WHERE k = 1",
        "[0, 3, 1, 9],{'b'},{'k': 1, 'z': 26},{street: 's', zip: 6}",
    );
    check("SELECT a, v FROM t WHERE a IN (2, 9)", "9,'w'");
    assert!(
        run(
            &mut schema,
            "INSERT INTO ks.t (a, b, c) VALUES (1, 'x', 1) IF NOT EXISTS",
            None
        )
        .is_err()
    );
}

#[test]
fn prepared_metadata_is_cassandras() {
    let schema = golden_schema();
    let hex = |bytes: [u8; 16]| helenus_types::literal::hex(&bytes);
    assert_eq!(
        hex(prepared_id("SELECT * FROM ks.t WHERE a=?", None)),
        "6882587f404270707098ddfa90a66d80"
    );
    assert_eq!(
        hex(prepared_id("SELECT * FROM t WHERE a=?", Some("ks"))),
        "582b329a536a7cd3521fa907037ccf6f"
    );
    let select = prepare("SELECT * FROM ks.t WHERE a=?", &schema, None).unwrap();
    assert_eq!(
        hex(result_metadata_id(select.result_columns().unwrap())),
        "6caaf0560fdbaa1207ad7d89f92c0664"
    );
    let check = |text: &str, names: &str, indexes: &[u16]| {
        let prepared =
            prepare(text, &schema, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        let found: Vec<_> = prepared
            .variables()
            .iter()
            .map(|v| format!("{} {}", v.name, v.cql_type))
            .collect();
        assert_eq!(
            (found.join("; ").as_str(), prepared.partition_key_indexes()),
            (names, indexes),
            "{text}"
        );
    };
    check(
        "SELECT * FROM ks.t WHERE a=? AND b=? LIMIT ?",
        "a int; b text; [limit] int",
        &[0],
    );
    check("SELECT * FROM ks.t WHERE a IN ?", "in(a) list<int>", &[]);
    check(
        "INSERT INTO ks.t (a,b,c,v) VALUES (?,?,?,?) USING TTL ? AND TIMESTAMP ?",
        "a int; b text; c int; v text; [ttl] int; [timestamp] bigint",
        &[0],
    );
    check(
        "UPDATE ks.t SET v=? WHERE a=? AND b=:named AND c=?",
        "v text; a int; named text; c int",
        &[1],
    );
    check(
        "INSERT INTO ks.comp (b,a,c,d) VALUES (?,?,?,?)",
        "b text; a int; c uuid; d timestamp",
        &[1, 0],
    );
    check(
        "SELECT * FROM ks.comp WHERE token(a,b) > ?",
        "partition key token bigint",
        &[],
    );
    check("INSERT INTO ks.t JSON ?", "[json] text", &[]);
    check(
        "UPDATE ks.alltypes SET c_list = c_list + ?, c_map[?] = ?, c_set = c_set - ?  WHERE k=?",
        "c_list list<int>; key(c_map) text; value(c_map) int; c_set set<text>; k int",
        &[4],
    );
}

#[test]
fn bound_values_are_checked() {
    let schema = golden_schema();
    let check = |text: &str, values: &[BoundValue], expected: &str| {
        let prepared = prepare(text, &schema, None).unwrap();
        let found = prepared.bind(
            &BoundValues::Positional(values.to_vec()),
            &context(),
            &schema,
        );
        assert_eq!(
            found.map_or_else(|error| error.to_string(), |_| "ok".into()),
            expected,
            "{text}"
        );
    };
    let value = |bytes: &[u8]| BoundValue::Value(Bytes::copy_from_slice(bytes));
    let by_key = "SELECT * FROM ks.t WHERE a=?";
    check(by_key, &[value(&[0, 0])], "Expected 4 or 0 byte int (2)");
    check(by_key, &[value(&[])], "Key may not be empty");
    check(
        by_key,
        &[BoundValue::Null],
        "Invalid null value in condition for column a",
    );
    check(
        by_key,
        &[BoundValue::Unset],
        "Invalid unset value for column a",
    );
    check(
        by_key,
        &[],
        "there were 1 markers(?) in CQL but 0 bound variables",
    );
    check(
        "SELECT * FROM ks.t LIMIT ?",
        &[value(&[0; 4])],
        "LIMIT must be strictly positive",
    );
    check(
        "SELECT * FROM ks.t LIMIT ?",
        &[BoundValue::Null],
        "Invalid null value of limit",
    );
    check("SELECT * FROM ks.t LIMIT ?", &[BoundValue::Unset], "ok");
    check(
        "SELECT * FROM ks.t WHERE a IN ?",
        &[BoundValue::Null],
        "Invalid null value for column a",
    );
    let insert = "INSERT INTO ks.t (a,b,c,v) VALUES (1,'x',1,'v') USING TTL ?";
    check(insert, &[BoundValue::Null], "ok");
    check(insert, &[BoundValue::Unset], "ok");
    check(
        "INSERT INTO ks.t (a,b,c,v) VALUES (1,'x',1,?)",
        &[value(&[0xff, 0xfe])],
        "String didn't validate.",
    );
}

#[test]
fn paging_state_is_checked() {
    let schema = golden_schema();
    let context = BindContext {
        paging_state: Some(Bytes::from_static(b"no paging state")),
        ..context()
    };
    let error = prepare("SELECT * FROM ks.t WHERE a=?", &schema, None)
        .unwrap()
        .bind(
            &BoundValues::Positional(vec![BoundValue::Value(Bytes::from_static(&[0; 4]))]),
            &context,
            &schema,
        )
        .unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (0x000a, "Invalid value for the paging state")
    );
}

#[test]
fn described_schema_makes_itself_again() {
    let schema = golden_schema();
    let Plan::Rows(described) = run(
        &mut schema.clone(),
        "DESCRIBE FULL SCHEMA WITH INTERNALS",
        None,
    )
    .unwrap() else {
        panic!("no rows")
    };
    let mut again = fresh();
    for row in &described.rows {
        let text = String::from_utf8(row[3].clone().unwrap().to_vec()).unwrap();
        let keyspace = String::from_utf8(row[0].clone().unwrap().to_vec()).unwrap();
        if keyspace.starts_with("system") {
            continue;
        }
        for statement in text
            .split_inclusive(";\n")
            .filter(|statement| !statement.trim().is_empty())
        {
            run(&mut again, statement, None).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }
    for name in ["ks", "nts"] {
        let (a, b) = (
            schema.keyspace(name).unwrap(),
            again.keyspace(name).unwrap(),
        );
        assert_eq!(a.types, b.types);
        assert_eq!(a.replication, b.replication);
        for (table, other) in a.tables.values().zip(b.tables.values()) {
            assert_eq!(table.to_builder().build(), other.to_builder().build());
        }
    }
}

#[test]
fn schema_rows_read_back() {
    use helenus_cql::schema_rows::{SchemaPartitions, keyspaces_of, mutation_of, schema_version};
    let mut schema = fresh();
    let mut partitions = SchemaPartitions::new();
    let mut versions = Vec::new();
    for (at, statement) in (0..).zip(
        include_str!("golden/schema.cql")
            .lines()
            .filter(|line| !line.starts_with("CREATE INDEX")),
    ) {
        let plan = prepare(statement, &schema, None)
            .unwrap()
            .bind(&BoundValues::default(), &context(), &schema)
            .unwrap();
        let Plan::Schema(Some(change)) = plan else {
            panic!("no change")
        };
        let mutation = mutation_of(
            &change,
            &schema,
            1_700_000_000_000_000 + at * 10,
            1_700_000_000,
        )
        .unwrap();
        for update in mutation.updates {
            let list = partitions.entry(update.table.name.clone()).or_default();
            let present = list
                .iter()
                .position(|partition| partition.key == update.partition.key)
                .map(|at| list.remove(at));
            let both = present.into_iter().chain([update.partition]).collect();
            list.extend(helenus_rows::merge::merge_partitions(
                &update.table,
                both,
                false,
            ));
        }
        schema = applied(&schema, &change);
        versions.push(schema_version(&schema, &partitions, 1_700_000_001));
    }
    versions.dedup();
    assert_eq!(versions.len(), 10);
    let read = keyspaces_of(&schema, &partitions, 1_700_000_001).unwrap();
    for keyspace in read {
        let expected = schema.keyspace(&keyspace.name).unwrap();
        assert_eq!(keyspace.types, expected.types);
        assert_eq!(keyspace.replication, expected.replication);
        assert_eq!(keyspace.durable_writes, expected.durable_writes);
        for (table, other) in keyspace.tables.values().zip(expected.tables.values()) {
            let millis = |table: &helenus_schema::TableMetadata| {
                let mut builder = table.to_builder();
                for dropped in builder.dropped_columns.values_mut() {
                    dropped.dropped_time = dropped.dropped_time / 1000 * 1000;
                }
                builder.build()
            };
            assert_eq!(millis(table), millis(other));
        }
    }
}

/// Words that statements are made of: random sequences of them reach deep into the parser.
const WORDS: [&str; 60] = [
    "SELECT",
    "*",
    "FROM",
    "ks",
    ".",
    "t",
    "WHERE",
    "a",
    "=",
    "1",
    "AND",
    "IN",
    "(",
    ")",
    ",",
    "?",
    ":",
    "x",
    "'s'",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "CREATE",
    "TABLE",
    "PRIMARY",
    "KEY",
    "int",
    "text",
    "list",
    "<",
    ">",
    "[",
    "]",
    "{",
    "}",
    "token",
    "USING",
    "TTL",
    "TIMESTAMP",
    "BEGIN",
    "BATCH",
    "APPLY",
    ";",
    "LIMIT",
    "ALTER",
    "ADD",
    "DROP",
    "TYPE",
    "KEYSPACE",
    "WITH",
    "DESCRIBE",
    "count",
    "CAST",
    "AS",
    "JSON",
    "-",
    "+",
];

proptest! {
    #[test]
    fn parser_never_panics(text in "\\PC{0,60}") {
        drop(parse(&text));
    }

    #[test]
    fn analysis_never_panics(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..25), start in 0_usize..4) {
        let start = ["SELECT", "INSERT INTO ks.t", "UPDATE ks.t SET", "CREATE TABLE"][start];
        let text = format!("{start} {}", words.join(" "));
        let schema = fresh();
        if let Ok(prepared) = prepare(&text, &schema, Some("system")) {
            drop(prepared.bind(&BoundValues::default(), &context(), &schema));
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("(", ")"), ("-", ""), ("{1:", "}")] {
        let text = format!(
            "INSERT INTO ks.t (a) VALUES ({}1{})",
            open.repeat(5000),
            close.repeat(5000)
        );
        assert!(parse(&text).is_err());
    }
    assert!(
        parse(&format!(
            "CREATE TABLE k.t (a {}int{} PRIMARY KEY)",
            "list<".repeat(5000),
            ">".repeat(5000)
        ))
        .is_err()
    );
}
