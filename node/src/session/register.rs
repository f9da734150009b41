//! Registration: Hello, and the wait for the Welcome that alone makes a connection count.

use crate::diagnosis::Problem;
use crate::renewal::Life;
use iop_certs::NodeId;
use iop_transport::codes::CloseCode;
use iop_transport::session::{ControlRecv, ControlSend, say_hello};
use iop_transport::wire::{EdgeMessage, Hello, NodeMessage, Welcome};
use iop_transport::{Connection, ConnectionError};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// How long the edge may take to accept a registration. It may first have to find out whether another process of this
/// identity is alive.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a broken control stream may be ahead of the close that explains it.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection that the edge has welcomed.
pub(crate) struct Registered {
    pub(crate) registration: Registration,
    /// The identity that this node dialed with.
    pub(crate) node: NodeId,
    /// The life of the certificate that it dialed with.
    pub(crate) life: Life,
    /// Where the edge was reached.
    pub(crate) address: SocketAddr,
    /// The same for people, with the name that led there.
    pub(crate) shown: String,
}

/// The connection, its control stream, and what the edge said.
pub(crate) struct Registration {
    pub(crate) connection: Connection,
    pub(crate) send: ControlSend<NodeMessage>,
    pub(crate) recv: ControlRecv<EdgeMessage>,
    pub(crate) welcome: Welcome,
}

/// Says Hello and waits for the Welcome. On an error the connection is closed.
pub(crate) async fn register(connection: Connection, hello: &Hello) -> Result<Registration, Problem> {
    let registration = async {
        // What went wrong with a stream is told better by the close of its connection.
        let (send, mut recv) = say_hello(&connection, hello).await.ok()?;
        match recv.recv().await.ok()?? {
            EdgeMessage::Welcome(welcome) => Some((send, recv, welcome)),
            EdgeMessage::Apply(_)
            | EdgeMessage::Ping { .. }
            | EdgeMessage::Drain
            | EdgeMessage::Renewed { .. }
            | EdgeMessage::RenewalRefused { .. } => None,
        }
    };
    match timeout(WELCOME_TIMEOUT, registration).await {
        Ok(Some((send, recv, welcome))) => Ok(Registration { connection, send, recv, welcome }),
        Ok(None) => Err(match close_reason(&connection).await {
            Some(reason) => Problem::before_welcome(&reason),
            None => broken(&connection, "no Welcome where one was due"),
        }),
        Err(_elapsed) => {
            iop_transport::close(&connection, CloseCode::ProtocolViolation, b"no Welcome in time");
            Err(Problem::NoWelcome)
        }
    }
}

/// Why the peer or the network ended the connection, if that shows soon.
pub(super) async fn close_reason(connection: &Connection) -> Option<ConnectionError> {
    timeout(CLOSE_TIMEOUT, connection.closed()).await.ok()
}

/// Closes the connection to a peer that broke the protocol.
pub(super) fn broken(connection: &Connection, detail: &str) -> Problem {
    tracing::warn!(detail, "the edge broke the protocol");
    iop_transport::close(connection, CloseCode::ProtocolViolation, detail.as_bytes());
    Problem::EdgeBroke
}
