//! Error codes and texts against those of Apache Cassandra 5.0.5.

mod support;

use support::{golden_schema, run};

/// Statements whose answer differs, with the reason; may only shrink.
const KNOWN: &[(&str, &str)] = &[];

#[test]
fn errors_are_cassandras() {
    let mut schema = golden_schema();
    let text = include_str!("golden/errors.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let (mut wrong, mut total) = (Vec::new(), 0);
    for pair in lines.chunks(2) {
        let [statement, expected] = pair else { panic!("the golden file is cut short") };
        total += 1;
        let found = match run(&mut schema, statement, None) {
            Ok(_) => "    ok".to_owned(),
            Err(error) => format!("    {:#06x} {}", error.code(), error.to_string().replace('\n', "\\n")),
        };
        let known = KNOWN.iter().any(|entry| statement.contains(entry.0));
        if found != **expected && !known {
            wrong.push(format!("{statement}\n  cassandra {}\n  ours      {}", expected.trim(), found.trim()));
        }
    }
    assert!(wrong.is_empty(), "{} of {total} differ:\n{}", wrong.len(), wrong.join("\n"));
}
