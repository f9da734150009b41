//! Where a provider's requests go: its endpoint, joined with the path of each request.

use http::HeaderValue;
use http::uri::PathAndQuery;
use iop_config::Endpoint;

/// An endpoint, prepared for requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    endpoint: Endpoint,
    host_header: HeaderValue,
}

/// A path that cannot be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request's path is not a valid HTTP path")]
pub(crate) struct BadPath;

impl Target {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let host_header =
            HeaderValue::try_from(endpoint.authority()).expect("an endpoint's host and port are plain ASCII");
        Self { endpoint, host_header }
    }

    pub(crate) fn https(&self) -> bool {
        self.endpoint.https()
    }

    pub(crate) fn host(&self) -> &str {
        self.endpoint.host()
    }

    pub(crate) fn port(&self) -> u16 {
        self.endpoint.port()
    }

    /// Value of the Host header.
    pub(crate) fn host_header(&self) -> HeaderValue {
        self.host_header.clone()
    }

    /// The endpoint as its owner wrote it, for messages.
    pub(crate) fn display(&self) -> String {
        self.endpoint.to_string()
    }

    /// The path and query to ask for. The endpoint is the server's root; one given with the API's `/v1` already in it,
    /// as clients of that API are configured, is not doubled.
    pub(crate) fn join(&self, path: &str) -> Result<PathAndQuery, BadPath> {
        if !path.starts_with('/') {
            return Err(BadPath);
        }
        let mut base = self.endpoint.base_path();
        if path.starts_with("/v1/") {
            base = base.strip_suffix("/v1").unwrap_or(base);
        }
        format!("{base}{path}").parse().map_err(|_invalid| BadPath)
    }

    /// The same for a path of the server's native API below `/api/`. An endpoint given as for other clients, with `/api`
    /// or with the `/v1` of the compatible API in it, is the same server.
    pub(crate) fn join_native(&self, path: &str) -> Result<PathAndQuery, BadPath> {
        let base = self.endpoint.base_path();
        let root = ["/v1", "/api"].iter().find_map(|api| base.strip_suffix(api)).unwrap_or(base);
        format!("{root}{path}").parse().map_err(|_invalid| BadPath)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadPath, Target};

    fn join(endpoint: &str, path: &str) -> Result<String, BadPath> {
        let target = Target::new(endpoint.parse().expect("an endpoint"));
        target.join(path).map(|joined| joined.to_string())
    }

    #[test]
    fn the_path_is_appended_to_the_endpoint_and_v1_is_never_doubled() {
        let cases = [
            ("http://h:1", "/v1/chat/completions", "/v1/chat/completions"),
            ("http://h:1/", "/v1/models?x=/v1/", "/v1/models?x=/v1/"),
            ("http://h:1/v1", "/v1/chat/completions", "/v1/chat/completions"),
            ("http://h:1/v1/", "/v1/chat/completions?a=b", "/v1/chat/completions?a=b"),
            ("http://h:1/api/v1", "/v1/embeddings", "/api/v1/embeddings"),
            ("http://h:1/api", "/v1/embeddings", "/api/v1/embeddings"),
            ("http://h:1/xv1", "/v1/embeddings", "/xv1/v1/embeddings"),
            ("http://h:1/v1", "/health", "/v1/health"),
            ("http://h:1/v1", "/v1x/health", "/v1/v1x/health"),
        ];
        for (endpoint, path, joined) in cases {
            assert_eq!(join(endpoint, path).as_deref(), Ok(joined), "{endpoint} {path}");
        }
    }

    #[test]
    fn a_path_of_the_native_api_is_appended_to_the_root_of_the_server() {
        let cases = [
            ("http://h:1", "/api/chat"),
            ("http://h:1/", "/api/chat"),
            ("http://h:1/v1/", "/api/chat"),
            ("http://h:1/api", "/api/chat"),
            ("http://h:1/ollama", "/ollama/api/chat"),
            ("http://h:1/ollama/api/", "/ollama/api/chat"),
        ];
        for (endpoint, joined) in cases {
            let target = Target::new(endpoint.parse().expect("an endpoint"));
            assert_eq!(target.join_native("/api/chat").map(|path| path.to_string()).as_deref(), Ok(joined));
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in ["", "v1/models", "http://elsewhere/", "/v1/a b", "/a\r\nx: y"] {
            assert_eq!(join("http://h:1", path), Err(BadPath), "{path:?}");
        }
    }
}
