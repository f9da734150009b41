//! Who is at the other end, as TLS proved it. What the certificate means is not decided here.

use rustls::pki_types::CertificateDer;

/// The peer's certificate chain, leaf first. Empty if the peer showed none (TLS would have refused it before).
pub fn certificates(connection: &quinn::Connection) -> Vec<CertificateDer<'static>> {
    connection
        .peer_identity()
        .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
        .map(|chain| *chain)
        .unwrap_or_default()
}
