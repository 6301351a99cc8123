//! Everything that the types make of values, against `golden/values.txt`: printed by Apache Cassandra
//! 5.0.5's own classes with `golden/Golden.java` (the recipe stands in it).

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use helenus_types::byte_comparable;
use helenus_types::{Bytes, CqlType, DecoratedKey, Token};
use std::cmp::Ordering;

const GOLDEN: &str = include_str!("golden/values.txt");

fn unhex(text: &str) -> Bytes {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    helenus_types::literal::hex(bytes)
}

fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let mut parts = text.split('%');
    out.extend(parts.next().unwrap().bytes());
    for part in parts {
        out.push(u8::from_str_radix(&part[..2], 16).unwrap());
        out.extend(part[2..].bytes());
    }
    String::from_utf8(out).unwrap()
}

#[derive(Default)]
struct Report(Vec<String>);

impl Report {
    fn check(&mut self, what: &str, got: impl Into<String>, want: &str) {
        let got = got.into();
        if got != want {
            self.0
                .push(format!("{what}\n   got  {got}\n   want {want}"));
        }
    }
}

fn check_value(report: &mut Report, t: &CqlType, line: &str) {
    let [raw, literal, json, comparable, reversed] =
        line.split('|').collect::<Vec<_>>().try_into().unwrap();
    let bytes = unhex(raw);
    let what = |name: &str| format!("{name} of {t} {raw}");
    let value = t.decode(&bytes).unwrap();
    report.check(&what("encode"), hex(&t.encode(&value).unwrap()), raw);
    report.check(
        &what("literal"),
        t.format_literal(&bytes).unwrap(),
        &unescape(literal),
    );
    // "-" is where Cassandra's own printing fails.
    if json != "-" {
        report.check(&what("json"), t.to_json(&bytes).unwrap(), &unescape(json));
    }
    let text = |form: Option<Vec<u8>>| form.map_or("null".to_owned(), |bytes| hex(&bytes));
    report.check(
        &what("byte-comparable"),
        text(t.byte_comparable(&bytes, false)),
        comparable,
    );
    report.check(
        &what("reversed"),
        text(t.byte_comparable(&bytes, true)),
        reversed,
    );
}

fn check_order(report: &mut Report, t: &CqlType, values: &[Bytes], signs: &str) {
    let mut signs = signs.chars();
    for a in values {
        for b in values {
            let sign = match t.compare(a, b) {
                Ordering::Less => "<",
                Ordering::Equal => "=",
                Ordering::Greater => ">",
            };
            report.check(
                &format!("order of {t} {} {}", hex(a), hex(b)),
                sign,
                &signs.next().unwrap().to_string(),
            );
        }
    }
}

#[test]
fn values_of_cassandra() {
    let mut report = Report::default();
    let mut current = CqlType::Empty;
    let mut values = Vec::new();
    let mut count = 0;
    for line in GOLDEN.lines() {
        let (kind, rest) = line.split_once(' ').unwrap();
        match kind {
            "T" => {
                let [java, cql, fixed] = rest.split('|').collect::<Vec<_>>().try_into().unwrap();
                current = CqlType::from_java_name(java).unwrap();
                values.clear();
                report.check("java name", current.java_name(), java);
                report.check("cql name", current.to_string(), cql);
                let length = current
                    .fixed_length()
                    .map_or("-1".to_owned(), |length| length.to_string());
                report.check(&format!("fixed length of {cql}"), length, fixed);
            }
            "V" => {
                check_value(&mut report, &current, rest);
                values.push(unhex(rest.split('|').next().unwrap()));
                count += 1;
            }
            "C" => check_order(&mut report, &current, &values, rest),
            _ => {}
        }
    }
    assert!(count > 400, "{count}");
    assert!(
        report.0.is_empty(),
        "{} of {count} values differ:\n{}",
        report.0.len(),
        report.0.join("\n")
    );
}

#[test]
fn names_of_cassandra() {
    let mut report = Report::default();
    for line in GOLDEN.lines().filter_map(|line| line.strip_prefix("N ")) {
        let [given, java, cql] = line.split('|').collect::<Vec<_>>().try_into().unwrap();
        let (parsed, reversed) = CqlType::from_java_name_with_order(given).unwrap();
        if given.starts_with("CompositeType") {
            let key = helenus_types::java_name::parse_key_type(java).unwrap();
            report.check(given, helenus_types::java_name::key_type_name(&key), java);
            continue;
        }
        report.check(given, parsed.java_name_with_order(reversed), java);
        report.check(given, parsed.to_string(), cql);
    }
    assert!(report.0.is_empty(), "{}", report.0.join("\n"));
}

#[test]
fn tokens_of_cassandra() {
    let mut count = 0;
    for line in GOLDEN.lines().filter_map(|line| line.strip_prefix("K ")) {
        let [key, token, comparable] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let decorated = DecoratedKey::new(unhex(key));
        if key.is_empty() {
            // The empty key's token is the ring's minimum in Cassandra, and no key may be empty.
            assert_eq!(token, Token::MINIMUM.to_string());
            continue;
        }
        assert_eq!(decorated.token.to_string(), token, "{key}");
        assert_eq!(
            hex(&byte_comparable::decorated_key(&decorated)),
            comparable,
            "{key}"
        );
        count += 1;
    }
    assert_eq!(count, 160);
}
