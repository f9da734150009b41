//! Who may use the admin listener: whoever shows the operators' key, or reaches a loopback listener that has none. Browsers on
//! the same machine reach that too, for any web page, so there nothing is answered that may come from a page.

use crate::bearer::{bearer, is_shown};
use crate::live::Live;
use http::{Request, StatusCode, header};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stranger {
    #[error("operators of this edge need a key: send it as `Authorization: Bearer KEY`")]
    NoKey,
    #[error("the key is not the one that admin.key_env of this edge holds")]
    WrongKey,
    /// The file may name no key while it names loopback; the socket is still the one that was bound at the start.
    #[error(
        "this edge still listens for operators on more than loopback, but admin.key_env is gone from its configuration: \
         nobody is let in until it is there again or the edge starts again"
    )]
    KeyGone,
    #[error(
        "the request comes from a web page (it has an `origin`), and this edge asks operators for no key: call without a \
         browser, or give the edge a key (admin.key_env)"
    )]
    Page,
    /// A page whose own name has come to point at this machine reads what its origin answers.
    #[error(
        "the request's host is neither an IP address nor `localhost`, and this edge asks operators for no key: call it by \
         its address, or give the edge a key (admin.key_env), which a proxy in front of it needs"
    )]
    OtherHost,
}

impl Stranger {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::NoKey | Self::WrongKey | Self::KeyGone => StatusCode::UNAUTHORIZED,
            Self::Page | Self::OtherHost => StatusCode::FORBIDDEN,
        }
    }
}

/// Asks for the key of the configuration in force. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    live: Live,
    /// Whether the listener is one that only this machine reaches.
    is_loopback: bool,
}

impl Guard {
    /// For a listener that was bound to `address`.
    pub(crate) fn new(live: Live, address: SocketAddr) -> Self {
        Self { live, is_loopback: address.ip().is_loopback() }
    }

    /// Lets a request in, or says why not.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Stranger> {
        let settings = self.live.get();
        match &settings.config.admin.key {
            None if self.is_loopback => no_page(request),
            None => Err(Stranger::KeyGone),
            Some(key) => match bearer(request.headers()) {
                None => Err(Stranger::NoKey),
                Some(shown) if is_shown(key, shown) => Ok(()),
                Some(_) => Err(Stranger::WrongKey),
            },
        }
    }
}

/// Refuses what a browser may send for a web page. A request without any host comes from no browser.
fn no_page<B>(request: &Request<B>) -> Result<(), Stranger> {
    if request.headers().contains_key(header::ORIGIN) {
        return Err(Stranger::Page);
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let hosts = request.headers().get_all(header::HOST).iter().map(|host| host.as_bytes());
    match authority.into_iter().chain(hosts).all(is_own_name) {
        true => Ok(()),
        false => Err(Stranger::OtherHost),
    }
}

/// Whether nobody can make this name point elsewhere: an address, or `localhost`, with or without a port.
fn is_own_name(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return is_port(port) && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    is_port(port) && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

/// Whether this is what may stand behind a host: nothing, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_own_names_with_any_port_and_nothing_else_is() {
        for host in
            ["127.0.0.1", "127.0.0.1:9090", "[::1]", "[::1]:9090", "localhost", "LocalHost:1", "192.0.2.7:"]
        {
            assert!(is_own_name(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":9090",
            "edge",
            "localhost.evil.example",
            "evil.example:9090",
            "127.0.0.1.evil.example",
            "evil.example@127.0.0.1",
            "127.0.0.1@evil.example",
            "localhost:80@evil.example",
            "[::1",
            "[::1].evil.example",
            "[evil.example]",
            "::1",
            "127.1",
            "[127.0.0.1]",
            "local\u{fc}host",
            "127.0.0.1, evil.example",
        ] {
            assert!(!is_own_name(host.as_bytes()), "{host}");
        }
        assert!(!is_own_name(b"localhost\xff"));
    }
}
