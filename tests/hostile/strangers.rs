//! Peers without a certificate of the deployment, many of them: none of them keeps an honest node away.

use crate::fake_node::Dialer;
use crate::site::{DEADLINE, HOSTILE, IOP, Site};
use iop_certs::{Identity, Role};
use iop_tests::deadline::wait_until_async;
use iop_tests::process::Program;
use iop_transport::ConnectionError;
use iop_transport::endpoint;
use iop_transport::wire::ALPN;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, ClientConfig, Connecting, Endpoint, TransportConfig, UdpPoller};
use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_rustls::rustls;

/// The longest time that an honest node may take to register during a flood.
const MEANWHILE: Duration = Duration::from_secs(5);

/// Handshakes of one flood.
const FLOOD: usize = 2000;

/// What a peer hears of the edge's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hears {
    Everything,
    /// As somebody who made its address up.
    Nothing,
    /// Enough to prove its address, and then it goes no further.
    Retry,
}

/// A socket that drops what its owner does not hear.
#[derive(Debug)]
struct Deaf {
    socket: Arc<dyn AsyncUdpSocket>,
    hears: Hears,
}

impl AsyncUdpSocket for Deaf {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.socket.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.socket.poll_recv(cx, bufs, meta))?;
        for (buffer, meta) in bufs.iter().zip(&mut meta[..count]) {
            // The first byte of a Retry in version 1 of QUIC.
            let is_retry = buffer.first().is_some_and(|byte| byte & 0xf0 == 0xf0);
            if self.hears == Hears::Nothing || (self.hears == Hears::Retry && !is_retry) {
                meta.len = 0;
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }
}

pub(crate) fn stranger(address: Ipv4Addr, config: ClientConfig, hears: Hears) -> Endpoint {
    let socket = UdpSocket::bind((address, 0)).expect("a free port");
    let (socket, runtime) = endpoint::tokio_socket(socket).expect("a socket for tokio");
    let socket = Arc::new(Deaf { socket, hears });
    let mut endpoint =
        Endpoint::new_with_abstract_socket(quinn::EndpointConfig::default(), None, socket, runtime)
            .expect("an endpoint");
    endpoint.set_default_client_config(config);
    endpoint
}

/// TLS with the deployment's roots and whatever credentials.
fn config(site: &Site, identity: Option<Identity>, alpn: &[u8]) -> ClientConfig {
    config_with_window(site, identity, alpn, 1 << 20)
}

/// The same, with room for so many bytes on each stream.
pub(crate) fn config_with_window(
    site: &Site,
    identity: Option<Identity>,
    alpn: &[u8],
    window_bytes: u32,
) -> ClientConfig {
    let own = own_identity(site, HOSTILE);
    let mut roots = rustls::RootCertStore::empty();
    for root in own.roots {
        roots.add(root).expect("a good root");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots);
    let mut tls = match identity {
        Some(Identity { chain, key, .. }) => builder.with_client_auth_cert(chain, key).expect("a good key"),
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("QUIC's ciphers")));
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(window_bytes.into());
    transport.max_idle_timeout(Some(Duration::from_secs(30).try_into().expect("a small time")));
    config.transport_config(Arc::new(transport));
    config
}

pub(crate) fn own_identity(site: &Site, node: &str) -> Identity {
    let role = if node == "edge" { Role::Edge } else { Role::Node };
    let bundle = site.deployment.path(&format!("pki/{node}.pem"));
    iop_certs::load_bundle(&bundle, role).expect("a certificate of the deployment")
}

/// A node's certificate of another deployment.
async fn foreign_identity(directory: &Path) -> Identity {
    for arguments in
        [&["certs", "init", "--dir", "pki"][..], &["certs", "issue", "--dir", "pki", "--node", HOSTILE]]
    {
        let program = Program::new(IOP).args(arguments).directory(directory);
        program.run(crate::site::DEADLINE).await.expect_success("a foreign certificate");
    }
    iop_certs::load_bundle(&directory.join(format!("pki/{HOSTILE}.pem")), Role::Node).expect("it is made")
}

/// Registers an honest node's certificate while a flood goes on, and says how long that took.
async fn registers_meanwhile(site: &Site) {
    let begun = Instant::now();
    let node = timeout(MEANWHILE, Dialer::new(&site.deployment, HOSTILE).register(1)).await;
    node.expect("an honest node registers soon").expect("a Welcome");
    println!("measured: an honest node registered in {:?} meanwhile", begun.elapsed());
}

async fn flood(site: &Site, address: Ipv4Addr, hears: Hears) {
    let name = own_identity(site, HOSTILE).deployment;
    let endpoint = stranger(address, config(site, None, ALPN), hears);
    let mut half: Vec<Connecting> = Vec::new();
    for number in 0..FLOOD {
        half.push(endpoint.connect(site.deployment.quic, &name).expect("a dial is possible"));
        if number.is_multiple_of(50) {
            // They go out in bursts that the socket's buffers can take.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    for _ in 0..4 {
        registers_meanwhile(site).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    drop(half);
}

#[tokio::test]
async fn two_thousand_handshakes_from_made_up_addresses_keep_no_honest_node_away() {
    let site = Site::start().await;
    flood(&site, Ipv4Addr::LOCALHOST, Hears::Nothing).await;
    site.assert_unharmed().await;
}

#[tokio::test]
async fn two_thousand_handshakes_that_stop_after_their_address_is_proven_keep_no_other_address_away() {
    let site = Site::start().await;
    flood(&site, Ipv4Addr::new(127, 0, 0, 2), Hears::Retry).await;
    wait_until_async("the limit to be met", DEADLINE, async || {
        let lines = site.deployment.edge.stderr();
        if lines.iter().any(|line| line.contains("too many handshakes")) { Ok(()) } else { Err(lines) }
    })
    .await;
    site.assert_unharmed().await;
}

#[tokio::test]
async fn peers_without_a_good_certificate_are_refused_by_tls_and_cost_few_lines() {
    let site = Site::start().await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let foreign = foreign_identity(directory.path()).await;
    let name = own_identity(&site, HOSTILE).deployment;
    let cases = [
        ("no certificate", config(&site, None, ALPN), 0x174),
        ("another deployment's", config(&site, Some(foreign), ALPN), 0x130),
        ("the edge's own", config(&site, Some(own_identity(&site, "edge")), ALPN), 0x12b),
        ("another protocol", config(&site, Some(own_identity(&site, HOSTILE)), b"h3"), 0x178),
    ];
    for (what, config, code) in cases {
        let endpoint = stranger(Ipv4Addr::LOCALHOST, config, Hears::Everything);
        for _ in 0..100 {
            let connecting = endpoint.connect(site.deployment.quic, &name).expect("a dial is possible");
            let error = match timeout(MEANWHILE, connecting).await.expect("an answer in time") {
                Ok(connection) => crate::fake_node::closed(&connection).await,
                Err(error) => error,
            };
            match &error {
                ConnectionError::ConnectionClosed(close) => {
                    assert_eq!(u64::from(close.error_code), code, "{what}: {error}");
                }
                _ => panic!("{what}: {error}"),
            }
        }
        registers_meanwhile(&site).await;
    }
    site.assert_unharmed().await;
}

#[tokio::test]
async fn datagrams_that_are_no_quic_change_nothing() {
    let site = Site::start().await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let mut noise = 1_u64;
    let mut next = move || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise >> 33
    };
    for number in 0..20_000_u32 {
        let size = usize::try_from(next() % 1400).expect("a small size");
        let mut datagram: Vec<u8> = (0..size).map(|_| next().to_be_bytes()[7]).collect();
        // Half of them begin as packets of version 1 of QUIC do: Initial, 0-RTT, Handshake, Retry.
        if number.is_multiple_of(2) && size > 5 {
            datagram[0] = 0xc0 | datagram[0] & 0x3f;
            datagram[1..5].copy_from_slice(&1_u32.to_be_bytes());
        }
        // A full buffer drops the packet, as a network would.
        let _dropped = socket.send_to(&datagram, site.deployment.quic);
        if number.is_multiple_of(4000) {
            registers_meanwhile(&site).await;
        }
    }
    registers_meanwhile(&site).await;
    site.assert_unharmed().await;
}
