//! The settings of QUIC, and endpoints made with them. Who may connect is TLS's and the caller's business.

use crate::close::ClosableConfig;
use crate::tls::{self, Credentials, TlsError};
use crate::wire::{STREAM_WINDOW_BYTES, send_window_bytes, stream_limit};
use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, IdleTimeout, Runtime, ServerConfig,
    TransportConfig, VarInt,
};
use quinn_proto::HashedConnectionIdGenerator;
use ring::{hkdf, hmac};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// UDP socket buffers asked for on the edge, in bytes: many nodes dialing at once overflow the usual 208 KiB.
pub const EDGE_SOCKET_BYTES: usize = 8 << 20;

/// UDP socket buffers asked for on a node, in bytes.
pub const NODE_SOCKET_BYTES: usize = 2 << 20;

/// Connections whose handshake has not begun; more are refused, so that a flood costs little.
const MAX_INCOMING: usize = 1024;

/// Bytes held for a connection whose handshake has not begun.
const INCOMING_BUFFER_BYTES: u64 = 64 << 10;

/// Streams that a node may open: the control stream, and air for a node that opens it twice before it is refused.
const NODE_OPENED_STREAMS: u32 = 4;

/// What one deployment may want different from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicSettings {
    /// Silence after which a connection is dead. The smaller value of both ends counts.
    pub idle_timeout: Duration,
    /// How often a silent node makes itself heard. `None` on the edge, which must notice death without help of its own
    /// packets.
    pub keep_alive: Option<Duration>,
    /// Segmentation offload of UDP; some networks and drivers break it.
    pub segmentation_offload: bool,
}

/// A secret of the edge that survives restarts, so that nodes of the last process notice the restart at once.
#[derive(Clone)]
pub struct ResetSecret(pub [u8; 32]);

/// An endpoint that could not be made. Always local.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The UDP socket cannot be had.
    #[error("cannot listen on UDP {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The credentials do not work.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A UDP socket with buffers of `buffer_bytes` as far as the system allows. An IPv6 wildcard also takes IPv4.
pub fn bind(address: SocketAddr, buffer_bytes: usize) -> Result<UdpSocket, EndpointError> {
    let open = || {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // The system caps what it cannot give; a smaller buffer works, only storms lose packets.
        let _receive = socket.set_recv_buffer_size(buffer_bytes);
        let _send = socket.set_send_buffer_size(buffer_bytes);
        socket.bind(&address.into())?;
        Ok(UdpSocket::from(socket))
    };
    open().map_err(|source| EndpointError::Bind { address, source })
}

/// What an endpoint draws its random numbers from: `None` is the system's randomness. Keys and connection ids are always
/// the system's.
pub type Seed = Option<[u8; 32]>;

/// The edge's endpoint on a socket of the caller's.
pub fn edge(
    socket: Arc<dyn AsyncUdpSocket>,
    runtime: Arc<dyn Runtime>,
    seed: Seed,
    credentials: Credentials,
    secret: &ResetSecret,
    settings: QuicSettings,
) -> Result<Endpoint, EndpointError> {
    let server = edge_config(credentials, settings)?;
    let mut config = edge_endpoint_config(secret);
    config.rng_seed(seed);
    Endpoint::new_with_abstract_socket(config, Some(server), socket.clone(), runtime)
        .map_err(|source| bind_error(&*socket, source))
}

/// The edge's settings for new connections; also for an endpoint that is running, when certificates change.
pub fn edge_config(credentials: Credentials, settings: QuicSettings) -> Result<ServerConfig, TlsError> {
    let mut server = ServerConfig::with_crypto(Arc::new(tls::edge(credentials)?));
    server.transport_config(Arc::new(transport(settings, NODE_OPENED_STREAMS)));
    server.migration(true);
    server.max_incoming(MAX_INCOMING);
    server.incoming_buffer_size(INCOMING_BUFFER_BYTES);
    Ok(server)
}

/// The node's endpoint on a socket of the caller's. It accepts no connection.
pub fn node(
    socket: Arc<dyn AsyncUdpSocket>,
    runtime: Arc<dyn Runtime>,
    seed: Seed,
) -> Result<Endpoint, EndpointError> {
    let mut config = EndpointConfig::default();
    config.rng_seed(seed);
    Endpoint::new_with_abstract_socket(config, None, socket.clone(), runtime)
        .map_err(|source| bind_error(&*socket, source))
}

/// The node's settings for one dial.
pub fn node_config(credentials: Credentials, settings: QuicSettings) -> Result<ClientConfig, TlsError> {
    let mut client = ClientConfig::new(Arc::new(tls::node(credentials)?));
    client.transport_config(Arc::new(transport(settings, stream_limit(0))));
    Ok(client)
}

/// Wraps a bound socket for the tokio runtime.
pub fn tokio_socket(socket: UdpSocket) -> io::Result<(Arc<dyn AsyncUdpSocket>, Arc<dyn Runtime>)> {
    let runtime: Arc<dyn Runtime> = Arc::new(quinn::TokioRuntime);
    Ok((runtime.wrap_udp_socket(socket)?, runtime))
}

/// Sizes a live connection for `capacity` runs at once, on whichever end calls it. Raising works at once.
pub fn resize(connection: &quinn::Connection, capacity: u32) {
    let streams = stream_limit(capacity);
    connection.set_send_window(send_window_bytes(streams));
    if connection.side().is_client() {
        connection.set_max_concurrent_bi_streams(streams.into());
    }
}

fn transport(settings: QuicSettings, peer_streams: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // The range of idle_timeout_ms in the configuration keeps this far below the limit of QUIC's integers.
    let idle = IdleTimeout::try_from(settings.idle_timeout).unwrap_or_else(|_| VarInt::MAX.into());
    transport
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(settings.keep_alive)
        .max_concurrent_bidi_streams(peer_streams.into())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(STREAM_WINDOW_BYTES.into())
        .send_window(send_window_bytes(stream_limit(0)))
        .send_fairness(true)
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(Arc::new(ClosableConfig::default()))
        .enable_segmentation_offload(settings.segmentation_offload);
    transport
}

fn edge_endpoint_config(secret: &ResetSecret) -> EndpointConfig {
    let mut reset_key = [0; 32];
    let mut connection_id_key = [0; 8];
    derive(secret, b"iop stateless reset", &mut reset_key);
    derive(secret, b"iop connection id", &mut connection_id_key);
    let connection_id_key = u64::from_le_bytes(connection_id_key);
    let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset_key)));
    // Both keys must be stable: with a random connection-id key a restarted edge ignores packets of its old
    // connections instead of resetting them. The default interval of 20 ms would reset only some of many nodes.
    config
        .cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(connection_id_key)))
        .min_reset_interval(Duration::from_millis(1));
    config
}

/// Expands the secret into a key for one purpose.
fn derive(secret: &ResetSecret, purpose: &[u8], key: &mut [u8]) {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"iop/1");
    let length = key.len();
    salt.extract(&secret.0)
        .expand(&[purpose], Length(length))
        .and_then(|expanded| expanded.fill(key))
        .expect("HKDF gives up to 255 hashes and is asked for one");
}

fn bind_error(socket: &dyn AsyncUdpSocket, source: io::Error) -> EndpointError {
    let address = socket.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
    EndpointError::Bind { address, source }
}
