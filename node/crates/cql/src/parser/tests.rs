use super::*;
use crate::ast::*;

fn column(name: &str) -> Term {
    Term::Column(name.into())
}

#[test]
fn selects() {
    let Statement::Select(select) =
        parse("SELECT a, writetime(v) AS w FROM k.t WHERE a = 1 LIMIT 3")
            .unwrap()
            .statement
    else {
        panic!()
    };
    assert_eq!(select.selectors[0], (column("a"), None));
    assert_eq!(
        select.selectors[1],
        (
            Term::Metadata(CellFact::WriteTime, Box::new(column("v"))),
            Some("w".into())
        )
    );
    assert_eq!(select.relations.len(), 1);
}

#[test]
fn statements_parse() {
    for text in [
        "SELECT json, distinct, key FROM t",
        "SELECT JSON DISTINCT a FROM t",
        "SELECT (int) 1, [a, b], {a: b}, m['k'], m['a'..'b'], u.f.g, -c FROM t",
        "SELECT * FROM t WHERE (a, b) IN ((1, 2), ?) AND token(a) > ? AND m['x'] = 1 AND s CONTAINS KEY 'x' ALLOW FILTERING;",
        "INSERT INTO t JSON '{}' DEFAULT UNSET USING TTL 3",
        "UPDATE t USING TIMESTAMP ? AND TTL :x SET a = a + 1, b -= {'x'}, c[1] = 2, d.f = 3, e = [1] + e, n = n -1, f = now() WHERE k = 1 IF EXISTS",
        "DELETE a, b[1], c.d FROM t USING TIMESTAMP 3 WHERE k IN (1, 2) IF a = 1 AND b[2] IN (1)",
        "BEGIN UNLOGGED BATCH INSERT INTO t (a) VALUES (1); UPDATE t SET a = 1 WHERE k = 1 APPLY BATCH",
        "CREATE TABLE IF NOT EXISTS k.t (a int, b frozen<map<text, list<int>>>, c vector<float, 3>, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x' AND compaction = {'class': 'X'}",
        "ALTER TABLE t ADD (a int, b text static)",
        "ALTER TABLE t DROP (a, b) USING TIMESTAMP 3",
        "ALTER TYPE t RENAME a TO b AND c TO d",
        "DESC TABLE k.t",
        "DESCRIBE KEYSPACE",
        "DESC FULL SCHEMA",
        "DESC x",
        "TRUNCATE TABLE t",
        "USE \"K\"",
    ] {
        if let Err(error) = parse(text) {
            panic!("{text}: {error}");
        }
    }
}
