//! iop-node: the process beside the inference servers: supervisor, session, gate, adapters.
//!
//! It dials the edge and owns its reconnecting; it never accepts a connection, and knows neither queues nor models.

pub mod adapter;
mod diagnosis;
mod dial;
mod discover;
mod execution;
mod gate;
mod permit;
mod providers;
mod renewal;
mod run;
mod session;
mod supervisor;
mod upstream;

pub use dial::{
    BundleFile, IdentitySource, LoadingIdentity, ReplacingIdentity, Resolver, Resolving, Sockets,
    SystemResolver, UdpSockets,
};
pub use discover::{DiscoverError, list_models};
pub use execution::refuse;
pub use gate::{Gate, GateFull};
pub use providers::Providers;
pub use run::{NodeOptions, Welcomed, run};
pub use supervisor::Exit;
pub use upstream::{ByteStream, ConnectError, Connecting, Connector, TcpConnector};
