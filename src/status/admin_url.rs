//! Where the admin listener of an edge is, as people write it. Plain HTTP only: the listener speaks nothing else.

use iop_config::{Address, AddressError};
use std::fmt;
use std::str::FromStr;

/// Paths that people have in hand: `iop demo` prints the snapshot's own.
const PATHS: [&str; 4] = ["", "/", "/admin/v1/snapshot", "/admin/v1/"];

/// Host and port of an admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminUrl(Address);

/// The text names no admin listener.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdminUrlError {
    /// Another protocol than HTTP.
    #[error("the admin listener speaks plain HTTP: expected http://HOST:PORT, HOST:PORT or :PORT")]
    Scheme,
    /// A path that the admin listener does not have.
    #[error("expected no path behind the port: http://HOST:PORT, HOST:PORT or :PORT")]
    Path,
    /// No host and port.
    #[error("expected http://HOST:PORT, HOST:PORT or :PORT, such as http://127.0.0.1:9090")]
    Address(#[source] AddressError),
}

impl AdminUrl {
    pub(super) fn host(&self) -> &str {
        self.0.host()
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port()
    }
}

impl FromStr for AdminUrl {
    type Err = AdminUrlError;

    fn from_str(text: &str) -> Result<Self, AdminUrlError> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => return Err(AdminUrlError::Scheme),
            None => text,
        };
        let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if !PATHS.contains(&path) {
            return Err(AdminUrlError::Path);
        }
        let here = address.strip_prefix(':').map(|port| format!("127.0.0.1:{port}"));
        here.as_deref().unwrap_or(address).parse().map(Self).map_err(AdminUrlError::Address)
    }
}

/// `HOST:PORT`, as a request's `host` has it.
impl fmt::Display for AdminUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_listener_is_named_by_url_by_host_and_port_or_by_port() {
        for (text, shown) in [
            ("http://127.0.0.1:9090", "127.0.0.1:9090"),
            ("HTTP://127.0.0.1:9090/", "127.0.0.1:9090"),
            ("http://127.0.0.1:9090/admin/v1/snapshot", "127.0.0.1:9090"),
            ("edge.example.com:9090", "edge.example.com:9090"),
            ("[::1]:9090", "[::1]:9090"),
            ("http://[::1]:9090", "[::1]:9090"),
            (":9191", "127.0.0.1:9191"),
        ] {
            let url: AdminUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_an_admin_listener_is_told_apart() {
        let error = |text: &str| text.parse::<AdminUrl>().expect_err(text);
        assert_eq!(error("https://127.0.0.1:9090"), AdminUrlError::Scheme);
        for text in ["http://127.0.0.1:9090/v1/models", "127.0.0.1:9090/x"] {
            assert_eq!(error(text), AdminUrlError::Path, "{text}");
        }
        for text in [
            "",
            ":",
            "127.0.0.1",
            "http://127.0.0.1",
            ":0",
            "a:b",
            "::1:9090",
            "me@host:1",
            "h:1?q",
            "h\u{1b}:1",
        ] {
            assert!(matches!(error(text), AdminUrlError::Address(_)), "{text}");
        }
    }
}
