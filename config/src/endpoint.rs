//! The URL of an inference server, and the patterns by which a node says which of them it lets the edge use. A pattern
//! is compared part by part, never as text: `http://127.0.0.1.example.com` begins like a loopback address and is none.

use std::fmt;
use std::str::FromStr;

use crate::host::{bracketed, canonical, default_port, is_loopback, port_number, split};

/// Bytes of an endpoint's URL.
const MAX_URL_BYTES: usize = 2048;

/// Where an inference server listens: `http://host[:port][/base/path]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    https: bool,
    host: String,
    port: u16,
    base_path: String,
}

/// The text is no endpoint. It is not part of the error: a URL with a user part would show a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not usable as an endpoint, expected {}", Endpoint::EXPECTED)]
pub struct EndpointError;

impl Endpoint {
    /// What an endpoint must look like.
    pub const EXPECTED: &'static str =
        "an http:// or https:// URL without user, query and fragment, like http://127.0.0.1:8081";

    /// Whether the server is spoken to over TLS.
    pub fn https(&self) -> bool {
        self.https
    }

    /// A DNS name in lower case, an IPv4 address, or an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What stands before the path of every request: empty, or `/…` without a slash at its end.
    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    /// Host and, unless it is the scheme's default, port, as a Host header has them.
    pub fn authority(&self) -> String {
        let host = bracketed(&self.host);
        if default_port(scheme(self.https)) == Some(self.port) {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// Whether the host is this machine itself.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.len() > MAX_URL_BYTES {
            return Err(EndpointError);
        }
        let (https, rest) = split_scheme(text).ok_or(EndpointError)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = split(authority).ok_or(EndpointError)?;
        let port = match port {
            None => default_port(scheme(https)),
            Some(port) => port_number(port),
        };
        let base_path = path.trim_end_matches('/').to_owned();
        if !is_path(&base_path) {
            return Err(EndpointError);
        }
        let host = canonical(host).ok_or(EndpointError)?;
        Ok(Self { https, host, port: port.ok_or(EndpointError)?, base_path })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", scheme(self.https), self.authority(), self.base_path)
    }
}

/// Which endpoints a node accepts: `scheme://host`, `scheme://host:port` or `scheme://host:*`, where the host may be `*`.
/// Without a port the scheme's default port is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointPattern {
    https: bool,
    /// None: any host.
    host: Option<String>,
    /// None: any port.
    port: Option<u16>,
}

/// The text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pattern `{found}` is not usable, expected {}", EndpointPattern::EXPECTED)]
pub struct EndpointPatternError {
    /// The text, shortened.
    pub found: String,
}

impl EndpointPattern {
    /// What a pattern must look like.
    pub const EXPECTED: &'static str =
        "http:// or https://, a host or `*`, and a port, `:*` or none, like http://127.0.0.1:*";

    /// Whether the pattern covers `endpoint`. The base path does not matter.
    pub fn matches(&self, endpoint: &Endpoint) -> bool {
        self.https == endpoint.https
            && self.host.as_ref().is_none_or(|host| *host == endpoint.host)
            && self.port.is_none_or(|port| port == endpoint.port)
    }

    fn read(text: &str) -> Option<Self> {
        let (https, authority) = split_scheme(text)?;
        let (host, port) = split(authority)?;
        let host = if host == "*" { None } else { Some(canonical(host)?) };
        let port = match port {
            Some("*") => None,
            Some(port) => Some(port_number(port)?),
            None => default_port(scheme(https)),
        };
        Some(Self { https, host, port })
    }
}

impl FromStr for EndpointPattern {
    type Err = EndpointPatternError;

    fn from_str(text: &str) -> Result<Self, EndpointPatternError> {
        Self::read(text).ok_or_else(|| EndpointPatternError { found: crate::issue::shown(text) })
    }
}

impl fmt::Display for EndpointPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = scheme(self.https);
        let host = self.host.as_deref().map_or_else(|| "*".to_owned(), bracketed);
        match self.port {
            None => write!(f, "{scheme}://{host}:*"),
            Some(port) if default_port(scheme) == Some(port) => write!(f, "{scheme}://{host}"),
            Some(port) => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

fn scheme(https: bool) -> &'static str {
    if https { "https" } else { "http" }
}

fn split_scheme(text: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Some((false, rest)),
        "https" => Some((true, rest)),
        _ => None,
    }
}

/// RFC 3986 path characters; no `.` or `..` segments, which clients and servers resolve differently.
fn is_path(path: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(b);
    let mut bytes = path.as_bytes().iter();
    while let Some(byte) = bytes.next() {
        let hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
        let usable = if *byte == b'%' { hex(bytes.next()) && hex(bytes.next()) } else { plain(byte) };
        if !usable {
            return false;
        }
    }
    path.split('/').all(|segment| !matches!(segment, "." | ".."))
}
