//! Who is at the other end, as TLS proved it. What the certificate means is not decided here.

use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;

/// The peer's certificate chain, leaf first. Empty if the peer showed none (TLS would have refused it before).
pub fn certificates(connection: &quinn::Connection) -> Vec<CertificateDer<'static>> {
    connection
        .peer_identity()
        .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
        .map(|chain| *chain)
        .unwrap_or_default()
}

/// Where the peer is, as people write it: an IPv4 address that reached an IPv6 socket is an IPv4 address. Changes when the
/// peer moves; nothing may be keyed by it.
pub fn address(connection: &quinn::Connection) -> SocketAddr {
    canonical(connection.remote_address())
}

/// The address as people write it.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_in_an_ipv6_socket_is_shown_as_ipv4_and_others_stay() {
        for (raw, shown) in [
            ("[::ffff:192.0.2.1]:7", "192.0.2.1:7"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("192.0.2.1:7", "192.0.2.1:7"),
        ] {
            assert_eq!(canonical(raw.parse().expect("an address")).to_string(), shown);
        }
    }
}
