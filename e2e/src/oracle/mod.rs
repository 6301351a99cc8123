//! The other side of our tests: real Apache Cassandra 5.0.5 nodes on loopback addresses, and our own node run the same way.
//!
//! Cassandra's jars come from Maven Central, once, into `~/.cache/helenus/cassandra-5.0.5`. A node lives in a temporary
//! folder of its own and ends with the test process, however that ends.
//!
//! Invariants:
//! O1: no process outlives the test process (a drop guard, and the kernel's parent-death signal for aborts).
//! O2: every wait has a deadline, and its error names the log file to read.

pub mod cassandra;
pub mod child;
pub mod corpus;
pub mod helenus;
pub mod java;
pub mod logs;
pub mod target;
pub mod wire;

pub use cassandra::{Cassandra, Compatibility, Options as CassandraOptions};
pub use helenus::{Helenus, Options as HelenusOptions};
pub use java::tool;
pub use target::{Node, Target};
