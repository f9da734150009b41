//! Who may connect: every pair of certificates that must not, and that no session is ever resumed. What the identity in
//! a good certificate means is decided elsewhere.

use super::deployment::{Authority, EDGE_NAME, Role, Validity};
use super::links::{EDGE_SETTINGS, NODE_SETTINGS, edge_endpoint, loopback, node_endpoint, within};
use iop_transport::endpoint::{self, ResetSecret};
use iop_transport::peer;
use iop_transport::tls::{self, Credentials, TlsError};
use iop_transport::wire::ALPN;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use quinn::rustls::pki_types::ServerName;
use quinn::rustls::version::TLS13;
use quinn::rustls::{NamedGroup, RootCertStore};
use quinn::{ClientConfig, ConnectionError, Endpoint, TransportErrorCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

// The alerts of TLS, as RFC 8446 numbers them.
const BAD_CERTIFICATE: u8 = 42;
const UNSUPPORTED_CERTIFICATE: u8 = 43;
const EXPIRED_CERTIFICATE: u8 = 45;
const UNKNOWN_CA: u8 = 48;
const DECRYPT_ERROR: u8 = 51;
const CERTIFICATE_REQUIRED: u8 = 116;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// An edge that is running.
struct Edge {
    endpoint: Endpoint,
}

/// What became of one dial, on both ends: `None` is a connection that carries bytes.
#[derive(Debug, PartialEq)]
struct Outcome {
    node: Option<ConnectionError>,
    edge: Option<ConnectionError>,
}

impl Edge {
    fn new(authority: &Authority) -> Self {
        Self { endpoint: edge_endpoint(loopback(), authority, &ResetSecret([1; 32]), EDGE_SETTINGS) }
    }

    fn with(credentials: Credentials) -> Self {
        let edge = Self::new(&Authority::new());
        edge.change(credentials);
        edge
    }

    /// Changes the certificates of the running edge.
    fn change(&self, credentials: Credentials) {
        let config = endpoint::edge_config(credentials, EDGE_SETTINGS).expect("usable credentials");
        self.endpoint.set_server_config(Some(config));
    }

    async fn dialled_with(&self, credentials: Credentials) -> Outcome {
        self.dialled(
            endpoint::node_config(credentials, NODE_SETTINGS).expect("usable credentials"),
            EDGE_NAME,
        )
        .await
    }

    /// One dial. A connection is good when the node reads what the edge wrote: with TLS 1.3 a node that is refused
    /// believes for a moment that it is connected.
    async fn dialled(&self, config: ClientConfig, name: &str) -> Outcome {
        let node = node_endpoint();
        let address = self.endpoint.local_addr().expect("a bound socket");
        let dial = async {
            let connection = node.connect_with(config, address, name).expect("a good name").await?;
            let (_send, mut recv) = connection.accept_bi().await?;
            let read = recv.read_to_end(8).await.expect("the edge's greeting");
            assert_eq!(read, b"hi");
            Ok(connection)
        };
        let accept = async {
            let connection = self.endpoint.accept().await.expect("the endpoint is open").await?;
            let (mut send, _recv) = connection.open_bi().await?;
            send.write_all(b"hi").await.expect("a live stream");
            send.finish().expect("an open stream");
            Ok(connection)
        };
        let (at_node, at_edge) = within(async { tokio::join!(dial, accept) }).await;
        Outcome { node: at_node.as_ref().err().cloned(), edge: at_edge.as_ref().err().cloned() }
    }
}

fn good() -> Outcome {
    Outcome { node: None, edge: None }
}

/// Shows that one end refused the other with this alert, and that both know it.
fn assert_refused(refuser: Role, alert: u8, outcome: &Outcome) {
    let Outcome { node: Some(node), edge: Some(edge) } = outcome else {
        panic!("refused by one: {outcome:?}")
    };
    let (verdict, news) = match refuser {
        Role::Node => (node, edge),
        Role::Edge => (edge, node),
    };
    let code = TransportErrorCode::crypto(alert);
    let ConnectionError::TransportError(error) = verdict else { panic!("the verdict is local: {outcome:?}") };
    assert_eq!(error.code, code, "{outcome:?}");
    let ConnectionError::ConnectionClosed(close) = news else { panic!("the peer is told: {outcome:?}") };
    assert_eq!(close.error_code, code, "{outcome:?}");
}

#[tokio::test]
async fn a_good_node_connects_and_the_edge_knows_its_certificate() {
    let authority = Authority::new();
    let edge = edge_endpoint(loopback(), &authority, &ResetSecret([1; 32]), EDGE_SETTINGS);
    let credentials = authority.credentials(Role::Node);
    let leaf = credentials.chain[0].clone();
    let config = endpoint::node_config(credentials, NODE_SETTINGS).expect("good credentials");
    let node = node_endpoint();
    let dial = node.connect_with(config, edge.local_addr().expect("a bound socket"), EDGE_NAME);
    let accept = within(edge.accept()).await.expect("the endpoint is open");
    let (at_edge, at_node) =
        within(async { tokio::join!(accept.into_future(), dial.expect("a good name").into_future()) }).await;
    let (at_edge, at_node) = (at_edge.expect("a good node"), at_node.expect("a good edge"));
    assert_eq!(peer::certificates(&at_edge), [leaf]);
    assert_eq!(peer::certificates(&at_node).len(), 1, "and the node knows the edge's");
}

#[tokio::test]
async fn a_node_that_the_deployment_did_not_certify_is_refused() {
    let (ours, other, namesake) = (Authority::named("lab"), Authority::new(), Authority::named("lab"));
    let edge = Edge::new(&ours);
    let cases = [
        ("another authority", UNKNOWN_CA, other.issue(Role::Node, Validity::Now, &ours)),
        ("another of the same name", DECRYPT_ERROR, namesake.issue(Role::Node, Validity::Now, &ours)),
        ("expired", EXPIRED_CERTIFICATE, ours.issue(Role::Node, Validity::Past, &ours)),
        ("an edge's certificate", UNSUPPORTED_CERTIFICATE, ours.issue(Role::Edge, Validity::Now, &ours)),
    ];
    for (case, alert, credentials) in cases {
        let outcome = edge.dialled_with(credentials).await;
        println!("{case}: {outcome:?}");
        assert_refused(Role::Edge, alert, &outcome);
    }
    assert_eq!(edge.dialled_with(ours.credentials(Role::Node)).await, good(), "the edge itself is well");
}

#[tokio::test]
async fn an_edge_that_the_deployment_did_not_certify_is_refused_by_the_node() {
    let (ours, other, namesake) = (Authority::named("lab"), Authority::new(), Authority::named("lab"));
    let cases = [
        ("another authority", UNKNOWN_CA, other.issue(Role::Edge, Validity::Now, &ours)),
        ("another of the same name", DECRYPT_ERROR, namesake.issue(Role::Edge, Validity::Now, &ours)),
        ("expired", EXPIRED_CERTIFICATE, ours.issue(Role::Edge, Validity::Past, &ours)),
    ];
    for (case, alert, credentials) in cases {
        let outcome = Edge::with(credentials).dialled_with(ours.credentials(Role::Node)).await;
        println!("{case}: {outcome:?}");
        assert_refused(Role::Node, alert, &outcome);
    }
}

#[tokio::test]
async fn an_edge_under_another_name_is_refused_by_the_node() {
    let ours = Authority::new();
    let edge = Edge::new(&ours);
    let config =
        endpoint::node_config(ours.credentials(Role::Node), NODE_SETTINGS).expect("good credentials");
    assert_refused(Role::Node, BAD_CERTIFICATE, &edge.dialled(config, "edge.elsewhere").await);
}

// A stolen node certificate must not pose as an edge.
#[tokio::test]
async fn a_node_that_poses_as_an_edge_is_refused_by_the_node() {
    let ours = Authority::new();
    let edge = Edge::with(ours.issue(Role::Node, Validity::Now, &ours));
    let outcome = edge.dialled_with(ours.credentials(Role::Node)).await;
    let Some(ConnectionError::TransportError(error)) = &outcome.node else { panic!("refused: {outcome:?}") };
    let refusals = [UNSUPPORTED_CERTIFICATE, BAD_CERTIFICATE].map(TransportErrorCode::crypto);
    assert!(refusals.contains(&error.code), "{outcome:?}");
}

#[test]
fn credentials_that_cannot_work_make_no_config() {
    let ours = Authority::new();
    let credentials = || ours.credentials(Role::Node);
    let chainless = Credentials { chain: Vec::new(), ..credentials() };
    assert!(matches!(tls::node(chainless), Err(TlsError::Credentials(_))), "no certificate");
    let rootless = Credentials { roots: Vec::new(), ..credentials() };
    assert!(matches!(tls::edge(rootless), Err(TlsError::Roots(_))), "an edge that trusts nobody");
    let rootless = Credentials { roots: Vec::new(), ..credentials() };
    assert!(matches!(tls::node(rootless), Err(TlsError::Roots(_))), "a node that trusts nobody");
    let mismatched = Credentials { key: credentials().key, ..credentials() };
    assert!(matches!(tls::edge(mismatched), Err(TlsError::Credentials(_))), "another's key");
    let mismatched = Credentials { key: credentials().key, ..credentials() };
    assert!(matches!(tls::node(mismatched), Err(TlsError::Credentials(_))), "another's key");
    let broken = Credentials { roots: vec![vec![1, 2, 3].into()], ..credentials() };
    assert!(matches!(tls::node(broken), Err(TlsError::Roots(_))), "a root that is none");
}

/// Counts the tickets that it is given and offers them again.
#[derive(Debug, Default)]
struct Tickets(AtomicUsize);

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _server: ServerName<'static>, _group: NamedGroup) {}

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _server: ServerName<'static>, _value: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, _value: Tls13ClientSessionValue) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}

/// A peer that is not ours: it may show no certificate, speak another protocol, keep tickets.
fn stranger(
    credentials: Option<Credentials>,
    root: &Authority,
    alpn: &[u8],
    resumption: Resumption,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root.root()).expect("a good root");
    let provider = Arc::new(quinn::rustls::crypto::ring::default_provider());
    let config = quinn::rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .with_root_certificates(roots);
    let mut config = match credentials {
        Some(Credentials { chain, key, .. }) => {
            config.with_client_auth_cert(chain, key).expect("good credentials")
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = resumption;
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).expect("QUIC's cipher suite")))
}

#[tokio::test]
async fn a_peer_without_a_certificate_is_refused() {
    let ours = Authority::new();
    let config = stranger(None, &ours, ALPN, Resumption::disabled());
    let outcome = Edge::new(&ours).dialled(config, EDGE_NAME).await;
    assert_refused(Role::Edge, CERTIFICATE_REQUIRED, &outcome);
}

#[tokio::test]
async fn a_peer_of_another_protocol_is_refused() {
    let ours = Authority::new();
    let node = Some(ours.credentials(Role::Node));
    let config = stranger(node, &ours, b"iop/2", Resumption::disabled());
    let outcome = Edge::new(&ours).dialled(config, EDGE_NAME).await;
    assert_refused(Role::Edge, NO_APPLICATION_PROTOCOL, &outcome);
}

// A resumed session would skip the check of the certificate.
#[tokio::test]
async fn the_edge_gives_no_ticket_even_to_a_peer_that_wants_one() {
    let ours = Authority::new();
    let edge = Edge::new(&ours);
    let tickets = Arc::new(Tickets::default());
    let resumption = Resumption::store(tickets.clone());
    let config = stranger(Some(ours.credentials(Role::Node)), &ours, ALPN, resumption);
    for _ in 0..3 {
        assert_eq!(edge.dialled(config.clone(), EDGE_NAME).await, good());
    }
    assert_eq!(tickets.0.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_node_that_was_good_is_refused_once_the_edge_trusts_another_root() {
    let (ours, next) = (Authority::new(), Authority::new());
    let edge = Edge::new(&ours);
    let ours_too =
        endpoint::node_config(ours.credentials(Role::Node), NODE_SETTINGS).expect("good credentials");
    let memory = Resumption::in_memory_sessions(8);
    let stranger = stranger(Some(ours.credentials(Role::Node)), &ours, ALPN, memory);
    for config in [&ours_too, &stranger] {
        assert_eq!(edge.dialled(config.clone(), EDGE_NAME).await, good());
    }
    edge.change(ours.issue(Role::Edge, Validity::Now, &next));
    for config in [&ours_too, &stranger] {
        assert_refused(Role::Edge, UNKNOWN_CA, &edge.dialled(config.clone(), EDGE_NAME).await);
    }
}

// [certs] changed files are picked up without a restart: what is connected stays so.
#[tokio::test]
async fn a_live_connection_survives_a_change_of_the_edges_certificates() {
    let link = super::links::link().await;
    let other = Authority::new();
    let config =
        endpoint::edge_config(other.credentials(Role::Edge), EDGE_SETTINGS).expect("good credentials");
    link.edge.set_server_config(Some(config));
    let (mut send, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    within(send.write_all(b"still here")).await.expect("a live stream");
    send.finish().expect("an open stream");
    let (_send, mut recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    assert_eq!(within(recv.read_to_end(100)).await.expect("whole"), b"still here");
}
