//! The edges through which the node touches the world: clock, entropy, disk. The real ones are
//! the only code that may ask the operating system; the simulated ones are owned by tests.
//!
//! Invariants:
//! M1: no crate above asks for time, randomness or a file except through these traits.
//! M2: simulated edges under one seed give the same answers in the same order.

pub mod clock;
pub mod disk;
pub mod entropy;

pub use clock::{Clock, RealClock, SimulatedClock};
pub use disk::{Disk, DiskFile, RealDisk, SimulatedDisk};
pub use entropy::{Entropy, RealEntropy, SeededEntropy};
