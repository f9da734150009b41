//! iop-node: the process beside the inference servers: supervisor, session, gate, adapters.
//!
//! It dials the edge and owns its reconnecting; it never accepts a connection, and knows neither queues nor models.

mod supervisor;

pub use supervisor::{Attempts, Exit, Policy};
