//! The operator of Helenus: it keeps Cassandra clusters as their custom resources ask.
//!
//! `core` decides and holds no Kubernetes client: an observed world goes in, one topology step and
//! any number of independent steps come out. `edge` watches, reads, asks nodes, writes, elects a
//! leader and answers nodes that look for seeds. A reconcile is five steps, one file each:
//! dereference → validate → plan → apply → status.

pub mod core;
pub mod crd;
pub mod edge;
