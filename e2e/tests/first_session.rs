//! The session that `cargo xtask up` runs first, on Apache Cassandra: so that a failure of it on Helenus is Helenus's.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at what it did not expect"
)]

use helenus_e2e::first_session::{self, Nodes};
use helenus_e2e::oracle::{Cassandra, CassandraOptions};

/// Of the range that no other test uses.
const ADDRESS: &str = "127.0.10.1";

#[test]
fn the_first_session_works_on_cassandra_and_again() {
    let options = CassandraOptions::default();
    let mut cassandra = Cassandra::start(ADDRESS, &options).unwrap();
    let mut nodes = Nodes::default();
    nodes
        .addresses
        .push(format!("{ADDRESS}:9042").parse().unwrap());
    for _ in 0..2 {
        let transcript = first_session::run(&nodes, &options.datacenter, 1).unwrap();
        assert!(
            transcript
                .iter()
                .any(|line| line.contains("Helenus") && line.contains("seer")),
            "{transcript:?}"
        );
    }
    cassandra.stop().unwrap();
}
