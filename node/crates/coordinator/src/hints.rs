//! Writes kept for replicas that did not take them.
