//! A node in this process, with a real certificate of the deployment: it says what a test tells it, and not what a node
//! should.

use crate::site::{DEADLINE, HOSTILE, Site};
use crate::strangers::{Hears, config_with_window, own_identity, stranger};
use iop_certs::Role;
use iop_tests::deployment::Deployment;
use iop_transport::codes::CloseCode;
use iop_transport::endpoint::{self, QuicSettings};
use iop_transport::session::{ControlRecv, ControlSend, say_hello};
use iop_transport::tls::Credentials;
use iop_transport::wire::{self, Applied, EdgeMessage, Hello, NodeMessage, RUN_HEAD_BYTES, RunHead, Welcome};
use iop_transport::{Connection, ConnectionError, Endpoint};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use tokio::time::timeout;

/// A UDP endpoint with the certificate of one node.
pub(crate) struct Dialer {
    endpoint: Endpoint,
    edge: std::net::SocketAddr,
    server_name: String,
}

/// A connection that was welcomed.
pub(crate) struct Node {
    pub(crate) connection: Connection,
    pub(crate) send: ControlSend<NodeMessage>,
    pub(crate) recv: ControlRecv<EdgeMessage>,
    pub(crate) welcome: Welcome,
}

impl Dialer {
    pub(crate) fn new(deployment: &Deployment, node: &str) -> Self {
        let bundle = deployment.path(&format!("pki/{node}.pem"));
        let identity = iop_certs::load_bundle(&bundle, Role::Node).expect("the node's certificate");
        let settings = QuicSettings {
            idle_timeout: Duration::from_secs(30),
            keep_alive: Some(Duration::from_secs(1)),
            segmentation_offload: true,
        };
        let credentials = Credentials { chain: identity.chain, key: identity.key, roots: identity.roots };
        let config = endpoint::node_config(credentials, settings).expect("good credentials");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let (socket, runtime) = endpoint::tokio_socket(socket).expect("a socket for tokio");
        let mut endpoint = endpoint::node(socket, runtime, None).expect("an endpoint");
        endpoint.set_default_client_config(config);
        Self { endpoint, edge: deployment.quic, server_name: identity.deployment }
    }

    /// The same certificate, with room for so many bytes on each stream.
    pub(crate) fn with_window(site: &Site, node: &str, window_bytes: u32) -> Self {
        let identity = own_identity(site, node);
        let server_name = identity.deployment.clone();
        let config = config_with_window(site, Some(identity), wire::ALPN, window_bytes);
        let endpoint = stranger(Ipv4Addr::LOCALHOST, config, Hears::Everything);
        Self { endpoint, edge: site.deployment.quic, server_name }
    }

    /// A connection that has said nothing yet.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectionError> {
        self.endpoint.connect(self.edge, &self.server_name).expect("a dial is possible").await
    }

    /// A connection that was welcomed. `instance` tells processes apart.
    pub(crate) async fn register(&self, instance: u8) -> Result<Node, ConnectionError> {
        let connection = self.connect().await?;
        let hello = Hello { instance: [instance; 16], dial: 1, software: "fake".to_owned() };
        let registered = async {
            let (send, mut recv) = say_hello(&connection, &hello).await.ok()?;
            match recv.recv().await.ok()?? {
                EdgeMessage::Welcome(welcome) => Some((send, recv, welcome)),
                other => panic!("a Welcome comes first: {other:?}"),
            }
        };
        match timeout(DEADLINE, registered).await.expect("an answer in time") {
            Some((send, recv, welcome)) => Ok(Node { connection, send, recv, welcome }),
            None => Err(closed(&connection).await),
        }
    }

    /// A node whose providers are all in force.
    pub(crate) async fn serve(&self, instance: u8) -> Node {
        let mut node = self.register(instance).await.expect("a Welcome");
        node.applied(node.welcome.apply.revision).await;
        node
    }
}

impl Node {
    /// Says hello as the hostile node of the site, and confirms everything.
    pub(crate) async fn of(site: &Site) -> Self {
        let node = Dialer::new(&site.deployment, HOSTILE).serve(1).await;
        iop_tests::deadline::wait_until_async("the hostile node to be in force", DEADLINE, async || {
            let node = site.node(HOSTILE).await;
            if node["providers"][0]["effective_capacity"] == 0 { Err(node) } else { Ok(()) }
        })
        .await;
        node
    }

    pub(crate) async fn applied(&mut self, revision: u64) {
        let applied = NodeMessage::Applied(Applied { revision, refused: Vec::new() });
        self.send.send(&applied).await.expect("the control stream stands");
    }
}

/// Why the connection was closed; it is, soon.
pub(crate) async fn closed(connection: &Connection) -> ConnectionError {
    timeout(DEADLINE, connection.closed()).await.expect("the connection is closed in time")
}

/// Passes when the edge closes the connection with this code.
pub(crate) async fn assert_closed(what: &str, connection: &Connection, code: CloseCode) {
    assert_code(what, &closed(connection).await, code);
}

/// Passes when this is the edge's close with this code.
pub(crate) fn assert_code(what: &str, error: &ConnectionError, code: CloseCode) {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            assert_eq!(CloseCode::from_wire(close.error_code), Some(code), "{what}: {error}");
        }
        other => panic!("{what}: closed by the edge with {code:?}, not {other}"),
    }
}

/// A run that the edge gave to this node: its head is read, its body is not.
pub(crate) struct Run {
    pub(crate) send: quinn::SendStream,
    pub(crate) recv: quinn::RecvStream,
}

impl Run {
    pub(crate) async fn next(connection: &Connection) -> Self {
        let stream = timeout(DEADLINE, connection.accept_bi()).await.expect("a run in time");
        let (send, mut recv) = stream.expect("the connection stands");
        let frame = wire::read_frame(&mut recv, RUN_HEAD_BYTES).await.expect("a head").expect("a head");
        let _head: RunHead = wire::decode(&frame).expect("a good head");
        Self { send, recv }
    }
}
