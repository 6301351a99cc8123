//! System keyspaces as `DESCRIBE` of Apache Cassandra 5.0.5 (cqlsh 6.2 on a fresh node) shows them.

use helenus_cql::describe::{keyspace_statement, table_statement};
use helenus_schema::system::system_keyspaces;

#[test]
fn system_keyspaces_are_cassandras() {
    let golden = [
        ("system", include_str!("golden/describe/system.cql")),
        (
            "system_schema",
            include_str!("golden/describe/system_schema.cql"),
        ),
        (
            "system_auth",
            include_str!("golden/describe/system_auth.cql"),
        ),
        (
            "system_distributed",
            include_str!("golden/describe/system_distributed.cql"),
        ),
        (
            "system_traces",
            include_str!("golden/describe/system_traces.cql"),
        ),
    ];
    for keyspace in system_keyspaces() {
        let Some((_, expected)) = golden.iter().find(|entry| entry.0 == keyspace.name) else {
            continue;
        };
        let statements: Vec<&str> = expected
            .split(";\n")
            .map(str::trim)
            .filter(|text| !text.is_empty() && !text.starts_with("CREATE CUSTOM INDEX"))
            .collect();
        let mut ours = vec![keyspace_statement(&keyspace)];
        ours.extend(
            keyspace
                .tables
                .values()
                .map(|table| table_statement(table, false)),
        );
        assert_eq!(ours.len(), statements.len(), "{}", keyspace.name);
        for statement in ours {
            let statement = statement.trim_end_matches(';');
            assert!(
                statements.contains(&statement),
                "not as Cassandra describes it:\n{statement}"
            );
        }
    }
}
