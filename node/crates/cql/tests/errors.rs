//! Error codes and texts against those of Apache Cassandra 5.0.5.

mod support;

use support::{golden_schema, run};

/// Statements whose answer differs, with the reason; may only shrink.
const KNOWN: &[(&str, &str)] = &[
    (
        "SELECT * FROM ks.t WHERE a = ?",
        "the session tells unprepared statements without values",
    ),
    (
        "550e8400-e29b-41d4-a716)",
        "the lexer takes a UUID cut short as other tokens",
    ),
    (
        "(k, c_ascii) VALUES (1, 'é')",
        "Java's exception is not imitated",
    ),
    ("JSON '{bad'", "Java's JSON parser is not imitated"),
    (
        "SET c_list[0] = 1 WHERE k = 12345",
        "list elements by index are not done yet",
    ),
    ("INDEX", "indexes are not done yet"),
    ("CREATE USER", "roles are not done yet"),
    ("LIST ROLES", "roles are not done yet"),
    ("GRANT", "roles are not done yet"),
    ("MATERIALIZED VIEW", "views are not done yet"),
    ("CREATE FUNCTION", "functions are not done yet"),
    ("CREATE TRIGGER", "triggers are not done yet"),
    (" IF zz=1", "conditions are not done yet"),
    (" IF v='y'", "conditions are not done yet"),
];

#[test]
fn errors_are_cassandras() {
    let mut schema = golden_schema();
    let text = include_str!("golden/errors.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let (mut wrong, mut total) = (Vec::new(), 0);
    for pair in lines.chunks(2) {
        let [statement, expected] = pair else {
            panic!("the golden file is cut short")
        };
        total += 1;
        let found = match run(&mut schema, statement, None) {
            Ok(_) => "    ok".to_owned(),
            Err(error) => format!(
                "    {:#06x} {}",
                error.code(),
                error.to_string().replace('\n', "\\n")
            ),
        };
        let known = KNOWN.iter().any(|entry| statement.contains(entry.0));
        if found != **expected && !known {
            wrong.push(format!(
                "{statement}\n  cassandra {}\n  ours      {}",
                expected.trim(),
                found.trim()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {total} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
