//! The developer commands behind `cargo xtask` and what the end-to-end tests stand on.
//!
//! Nothing in here is part of the database: it builds images, runs a real Kubernetes on one machine, and compares
//! Helenus with Apache Cassandra.

pub mod ci;
pub mod drivers;
pub mod first_session;
pub mod image;
pub mod kubernetes;
pub mod oracle;
pub mod paths;
pub mod process;
pub mod progress;
pub mod up;
