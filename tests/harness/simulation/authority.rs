//! The deployment's certificates, made from fixed Ed25519 keys: every handshake of every run has packets of the same
//! sizes, which signatures of other kinds would not give.

use iop_certs::{DEFAULT_EDGE_NAME, Identity, NodeId};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::OnceLock;

/// Most nodes of a run.
pub(super) const MOST_NODES: usize = 4;

/// What stands before the 32 bytes of an Ed25519 key in PKCS#8.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// All identities, made once for all runs.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) edge: Identity,
    pub(super) nodes: Vec<Identity>,
}

impl Authority {
    /// The authority of every run.
    pub(super) fn shared() -> &'static Self {
        static AUTHORITY: OnceLock<Authority> = OnceLock::new();
        AUTHORITY.get_or_init(Self::make)
    }

    fn make() -> Self {
        let (key, _) = key(1);
        let mut params = params(1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = params.self_signed(&key).expect("a root out of good parameters");
        let issuer = Issuer::new(params, key);
        let nodes = (0..MOST_NODES).map(|number| Self::node(&issuer, root.der(), number)).collect();
        Self { edge: Self::edge(&issuer, root.der()), nodes }
    }

    fn edge(issuer: &Issuer<'_, KeyPair>, root: &CertificateDer<'static>) -> Identity {
        let mut params = params(2);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names =
            vec![SanType::DnsName(DEFAULT_EDGE_NAME.try_into().expect("a good DNS name"))];
        identity(issuer, root, params, 2, None)
    }

    fn node(issuer: &Issuer<'_, KeyPair>, root: &CertificateDer<'static>, number: usize) -> Identity {
        let byte = 10 + u8::try_from(number).expect("few nodes");
        let id: NodeId = name(number).parse().expect("a good node id");
        let mut params = params(byte);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let uri = format!("spiffe://{DEFAULT_EDGE_NAME}/node/{id}");
        params.subject_alt_names = vec![SanType::URI(uri.as_str().try_into().expect("a good URI"))];
        identity(issuer, root, params, byte, Some(id))
    }
}

/// The name of a node.
pub(super) fn name(node: usize) -> String {
    format!("node-{node}")
}

fn identity(
    issuer: &Issuer<'_, KeyPair>,
    root: &CertificateDer<'static>,
    params: CertificateParams,
    byte: u8,
    node: Option<NodeId>,
) -> Identity {
    let (pair, key) = key(byte);
    let leaf = params.signed_by(&pair, issuer).expect("a leaf out of good parameters");
    Identity {
        chain: vec![leaf.der().clone()],
        key,
        roots: vec![root.clone()],
        deployment: DEFAULT_EDGE_NAME.to_owned(),
        node,
        not_before: 0,
        not_after: i64::MAX,
        serial: format!("{byte:02x}"),
    }
}

fn params(byte: u8) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2200, 1, 1);
    params.serial_number = Some(SerialNumber::from(vec![byte]));
    params.distinguished_name.push(DnType::CommonName, format!("simulated {byte:03}"));
    params
}

fn key(byte: u8) -> (KeyPair, PrivateKeyDer<'static>) {
    let mut der = PKCS8.to_vec();
    der.extend([byte; 32]);
    let der = PrivatePkcs8KeyDer::from(der);
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519).expect("a good Ed25519 key");
    (pair, PrivateKeyDer::from(der))
}
