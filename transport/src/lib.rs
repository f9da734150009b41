//! The wire between edge and node. Everything that knows quinn lives here, so that a change of QUIC library stays
//! in this crate; nothing here knows admission, HTTP or configuration files.

mod close;
pub mod codes;
pub mod endpoint;
pub mod peer;
pub mod send;
pub mod session;
pub mod tls;
pub mod tunnel;
pub mod wire;

pub use close::close;
pub use quinn::{AsyncUdpSocket, Connection, ConnectionError, Endpoint, Incoming, Runtime};
// What a network is made of that is not the system's.
pub use quinn::{TokioRuntime, UdpPoller, udp};
