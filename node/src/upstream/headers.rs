//! Which headers cross the node. End-to-end ones do, unchanged; those of one hop and those that carry or replace
//! credentials do not. The edge drops the client's credentials too: this is the second wall.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use iop_transport::wire::Header;

/// Headers that concern one connection only (RFC 9110, 7.6.1), and `Expect`, which HTTP on either side answers itself.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// Request headers that the node sets itself, or that may only come from the provider's settings.
const OWN: [HeaderName; 4] =
    [header::HOST, header::CONTENT_LENGTH, header::AUTHORIZATION, HeaderName::from_static("x-api-key")];

/// A header that HTTP cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("header {name:?} is not usable in HTTP")]
pub(crate) struct BadHeader {
    pub(crate) name: String,
}

/// The headers of a request as the inference server gets them, without the node's own.
pub(crate) fn request(from: &[Header]) -> Result<HeaderMap, BadHeader> {
    let mut headers = HeaderMap::with_capacity(from.len() + OWN.len());
    for (name, value) in from {
        let (name, value) = parse(name, value)?;
        headers.append(name, value);
    }
    remove_hop_by_hop(&mut headers);
    for name in &OWN {
        headers.remove(name);
    }
    Ok(headers)
}

/// The headers of an answer as the edge gets them.
pub(crate) fn response(mut headers: HeaderMap) -> Vec<Header> {
    remove_hop_by_hop(&mut headers);
    headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), Bytes::copy_from_slice(value.as_bytes())))
        .collect()
}

/// A header of the provider's settings. It may carry credentials, but not what HTTP itself needs.
pub(crate) fn setting(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), BadHeader> {
    let (name, mut value) = parse(name, value.as_bytes())?;
    let reserved = HOP_BY_HOP.contains(&name) || [header::HOST, header::CONTENT_LENGTH].contains(&name);
    if reserved || is_proxy(&name) {
        return Err(BadHeader { name: name.as_str().to_owned() });
    }
    value.set_sensitive(true);
    Ok((name, value))
}

fn parse(name: &str, value: &[u8]) -> Result<(HeaderName, HeaderValue), BadHeader> {
    let bad = || BadHeader { name: iop_transport::session::printable(name) };
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    Ok((parsed, HeaderValue::from_bytes(value).map_err(|_| bad())?))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .chain(headers.keys().filter(|name| is_proxy(name)).cloned())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn is_proxy(name: &HeaderName) -> bool {
    name.as_str().starts_with("proxy-")
}

#[cfg(test)]
mod tests {
    use super::{BadHeader, request, response, setting};
    use bytes::Bytes;
    use http::HeaderMap;
    use iop_transport::wire::Header;

    fn header(name: &str, value: &'static str) -> Header {
        (name.to_owned(), Bytes::from_static(value.as_bytes()))
    }

    #[test]
    fn credentials_and_headers_of_one_hop_do_not_reach_the_inference_server() {
        let sent = [
            header("content-type", "application/json"),
            header("x-dup", "1"),
            header("x-dup", "2"),
            header("authorization", "Bearer client"),
            header("x-api-key", "client"),
            header("proxy-authorization", "Basic client"),
            header("proxy-anything", "1"),
            header("host", "edge.example.com"),
            header("content-length", "7"),
            header("transfer-encoding", "chunked"),
            header("connection", "close, X-Named"),
            header("x-named", "1"),
            header("expect", "100-continue"),
            header("te", "trailers"),
            header("upgrade", "websocket"),
        ];
        let kept = request(&sent).expect("every header is valid");
        let kept: Vec<_> = kept.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(kept, [("content-type", &b"application/json"[..]), ("x-dup", b"1"), ("x-dup", b"2")]);
    }

    #[test]
    fn an_answer_keeps_its_length_and_repeated_headers() {
        let mut from = HeaderMap::new();
        for (name, value) in
            [("content-length", "3"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("keep-alive", "5")]
        {
            from.append(name, value.parse().expect("a header value"));
        }
        assert_eq!(
            response(from),
            [header("content-length", "3"), header("set-cookie", "a=1"), header("set-cookie", "b=2")]
        );
    }

    #[test]
    fn a_header_that_would_break_the_request_apart_is_refused() {
        let split = request(&[header("x-a", "1\r\nx-b: 2")]);
        assert_eq!(split, Err(BadHeader { name: "x-a".into() }));
        assert!(request(&[header("x a", "1")]).is_err());
    }

    #[test]
    fn settings_may_carry_credentials_but_not_what_http_sets_itself() {
        assert!(setting("x-api-key", "k").is_ok());
        assert!(setting("Authorization", "Basic k").is_ok());
        for name in
            ["host", "Content-Length", "connection", "transfer-encoding", "proxy-authorization", "a b"]
        {
            assert!(setting(name, "v").is_err(), "{name}");
        }
    }
}
