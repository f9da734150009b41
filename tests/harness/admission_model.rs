//! Admission's naive twin: plain lists, every question answered by walking them, no memory of what changed. The door
//! [`run_commands`] plays bytes as commands to it and to the machine and holds every answer against the other.
//! Tests, fuzz targets and benchmarks share it; it knows nothing of edges, nodes or sockets.

mod change;
mod door;
mod ledger;
mod model;
mod setup;

pub use door::{BYTES_PER_COMMAND, Tally, run_commands};
pub use model::Model;
pub use setup::{Ask, Setup, ask, long_slots, provider_key, slots};
