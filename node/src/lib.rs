//! iop-node: the process beside the inference servers: supervisor, session, gate, adapters.
//!
//! It dials the edge and owns its reconnecting; it never accepts a connection, and knows neither queues nor models.

mod adapter;
mod execution;
mod gate;
mod permit;
mod providers;
mod supervisor;
mod upstream;

pub use execution::refuse;
pub use gate::{Gate, GateFull};
pub use providers::Providers;
pub use supervisor::{Attempts, Exit, Policy};
pub use upstream::{ByteStream, ConnectError, Connecting, Connector, TcpConnector};
