//! Hosts and ports as they stand in addresses, URLs and origins, in one spelling each so that two of them can be
//! compared as text. Nothing is resolved here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Bytes of a DNS name.
const MAX_NAME_BYTES: usize = 253;

/// Where an edge can be dialled: a host, by name or number, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

/// The text is no `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address `{found}` is not usable, expected {}", Address::EXPECTED)]
pub struct AddressError {
    /// The text, shortened.
    pub found: String,
}

impl Address {
    /// What an address must look like.
    pub const EXPECTED: &'static str =
        "host:port, like edge.example.com:7443, 192.0.2.7:7443 or [2001:db8::7]:7443";

    /// A DNS name in lower case, an IPv4 address, or an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The UDP port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError { found: crate::issue::shown(text) };
        let (host, port) = split(text).ok_or_else(error)?;
        let port = port.and_then(port_number).ok_or_else(error)?;
        Ok(Self { host: canonical(host).ok_or_else(error)?, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`. Brackets stay on the host.
pub(crate) fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let host_end =
        if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
    let (host, rest) = text.split_at(host_end);
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port))),
        None => rest.is_empty().then_some((host, None)),
    }
}

/// The port, if it is one that can be dialled: decimal, without sign or leading zero.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    if digits { text.parse().ok() } else { None }
}

/// The one spelling of a host: lower case, IP addresses in their standard form, IPv6 without its brackets.
pub(crate) fn canonical(text: &str) -> Option<String> {
    if let Some(inner) = text.strip_prefix('[') {
        let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
        return Some(address.to_string());
    }
    // Resolvers read `127.1` or `0x7f.0.0.1` as IPv4 too: whoever compares text would miss that they are one address.
    let last = text.rsplit('.').next()?;
    let numeric =
        last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X");
    if numeric {
        let address: Ipv4Addr = text.parse().ok()?;
        return Some(address.to_string());
    }
    let name = text.to_ascii_lowercase();
    is_dns_name(&name).then_some(name)
}

/// Letters, digits, `-` and `_` in dotted labels, in lower case, not a number.
pub(crate) fn is_dns_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_NAME_BYTES && text.split('.').all(label) && !last.bytes().all(|b| b.is_ascii_digit())
}

/// `scheme://host[:port]` as a browser spells it. Web views and extensions have schemes of their own.
pub(crate) fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let scheme_is_usable = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.'));
    let Some((host, port)) = split(authority) else { return false };
    let host_is_canonical = canonical(host).is_some_and(|canonical| bracketed(&canonical) == host);
    let port_is_needed = match port {
        None => true,
        Some(port) => port_number(port).is_some_and(|port| default_port(scheme) != Some(port)),
    };
    text.len() <= MAX_NAME_BYTES + 64 && scheme_is_usable && host_is_canonical && port_is_needed
}

/// The port that a URL of this scheme means when it names none.
pub(crate) fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// A canonical host as it stands in front of a port.
pub(crate) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Whether a canonical host is this machine itself. `localhost` is taken at its word, as browsers do.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}
