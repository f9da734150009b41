//! A small deployment made on the spot: an authority and certificates for edge and node. What a good certificate of the
//! product looks like in detail is not decided here.

use iop_transport::tls::Credentials;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The name in the edge's certificate, which nodes ask for.
pub(super) const EDGE_NAME: &str = "edge.lab";

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Edge,
    Node,
}

/// Whether a certificate's time is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validity {
    Now,
    Past,
}

/// A certificate authority of its own.
pub(super) struct Authority {
    root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// An authority unlike every other.
    pub(super) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        Self::named(&format!("authority {}", NUMBER.fetch_add(1, Ordering::Relaxed)))
    }

    /// An authority with a key of its own, but perhaps another's name.
    pub(super) fn named(name: &str) -> Self {
        let key = KeyPair::generate().expect("a P-256 key");
        let mut params = CertificateParams::new(Vec::new()).expect("no name that could be wrong");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = params.self_signed(&key).expect("a root").der().clone();
        Self { root, issuer: Issuer::new(params, key) }
    }

    /// The root certificate.
    pub(super) fn root(&self) -> CertificateDer<'static> {
        self.root.clone()
    }

    /// Good credentials that trust this authority.
    pub(super) fn credentials(&self, role: Role) -> Credentials {
        self.issue(role, Validity::Now, self)
    }

    /// Credentials issued here that trust `trusted`.
    pub(super) fn issue(&self, role: Role, validity: Validity, trusted: &Authority) -> Credentials {
        let key = KeyPair::generate().expect("a P-256 key");
        let mut params = CertificateParams::new(Vec::new()).expect("no name that could be wrong");
        let (name, usage) = match role {
            Role::Edge => (
                SanType::DnsName(EDGE_NAME.try_into().expect("an ASCII name")),
                ExtendedKeyUsagePurpose::ServerAuth,
            ),
            Role::Node => (
                SanType::URI("spiffe://lab/node/gpu-a".try_into().expect("an ASCII name")),
                ExtendedKeyUsagePurpose::ClientAuth,
            ),
        };
        params.subject_alt_names = vec![name];
        params.extended_key_usages = vec![usage];
        if validity == Validity::Past {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        }
        let leaf = params.signed_by(&key, &self.issuer).expect("a leaf");
        Credentials {
            chain: vec![leaf.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("a key in DER"),
            roots: vec![trusted.root()],
        }
    }
}
