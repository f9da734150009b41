//! A connected edge and node over QUIC on loopback, with certificates made on the spot.

use iop_transport::endpoint::{self, NODE_SOCKET_BYTES, QuicSettings, ResetSecret};
use iop_transport::tls::Credentials;
use iop_transport::{Connection, Endpoint};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const EDGE_NAME: &str = "edge.lab";

const SETTINGS: QuicSettings =
    QuicSettings { idle_timeout: Duration::from_secs(10), keep_alive: None, segmentation_offload: true };

/// Both ends of one connection. The endpoints live as long.
pub(super) struct Link {
    pub(super) at_edge: Connection,
    pub(super) at_node: Connection,
    _endpoints: [Endpoint; 2],
}

/// A certificate authority of its own.
pub(super) struct Authority {
    pub(super) root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a P-256 key");
        let mut params = CertificateParams::new(Vec::new()).expect("no name that could be wrong");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).expect("a root").der().clone();
        Self { root, issuer: Issuer::new(params, key) }
    }

    pub(super) fn issue(&self, name: SanType, usage: ExtendedKeyUsagePurpose) -> Credentials {
        let key = KeyPair::generate().expect("a P-256 key");
        let mut params = CertificateParams::new(Vec::new()).expect("no name that could be wrong");
        params.subject_alt_names = vec![name];
        params.extended_key_usages = vec![usage];
        let leaf = params.signed_by(&key, &self.issuer).expect("a leaf");
        Credentials {
            chain: vec![leaf.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key in DER"),
            roots: vec![self.root.clone()],
        }
    }
}

impl Link {
    pub(super) async fn new() -> Self {
        let authority = Authority::new();
        let name = SanType::DnsName(EDGE_NAME.try_into().expect("an ASCII name"));
        let edge = authority.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
        let id = SanType::URI("spiffe://lab/node/gpu-a".try_into().expect("an ASCII name"));
        let node = authority.issue(id, ExtendedKeyUsagePurpose::ClientAuth);

        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = || {
            let socket = endpoint::bind(loopback, NODE_SOCKET_BYTES).expect("a free port");
            endpoint::tokio_socket(socket).expect("tokio takes the socket")
        };
        let (udp, runtime) = socket();
        let at_edge = endpoint::edge(udp, runtime, None, edge, &ResetSecret([7; 32]), SETTINGS)
            .expect("good credentials");
        let (udp, runtime) = socket();
        let at_node = endpoint::node(udp, runtime, None).expect("an endpoint");
        let config = endpoint::node_config(node, SETTINGS).expect("good credentials");
        let address = at_edge.local_addr().expect("a bound socket");
        let dial = async {
            let dial = at_node.connect_with(config, address, EDGE_NAME).expect("a good name");
            dial.await.expect("a good edge")
        };
        let accept = async { at_edge.accept().await.expect("an open endpoint").await.expect("a good node") };
        let (dialled, accepted) = tokio::join!(dial, accept);
        Self { at_edge: accepted, at_node: dialled, _endpoints: [at_edge, at_node] }
    }
}
