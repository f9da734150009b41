//! Asks an OpenAI-compatible server for its models, for those who have a URL and no configuration yet.

use crate::upstream::{
    Call, CallError, Connector, Payload, Target, TcpConnector, Trust, Upstream, UpstreamSettings,
};
use http::{HeaderMap, Method, StatusCode};
use iop_config::{Endpoint, EndpointError};
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for each step of the answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Largest list of models, in bytes.
const LIST_BYTES: usize = 1 << 20;

/// Why a server's models are not known.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The URL is none of a server.
    #[error("`{url}` is not the URL of a server: {source}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        source: EndpointError,
    },
    /// The server does not answer.
    #[error("cannot ask {url} for its models: {problem}")]
    NoAnswer {
        /// The server.
        url: String,
        /// What happened, for people.
        problem: String,
    },
    /// The server answers something else.
    #[error("{url} did not answer with a list of models: {problem}")]
    NotAList {
        /// The server.
        url: String,
        /// What it answered, for people.
        problem: String,
    },
}

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

/// A URL without its user part, which may hold a password.
fn without_user(url: &str) -> String {
    url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, host)| format!("…@{host}"))
}

/// The ids of the models that the server at `url` lists under `/v1/models`. The URL may end in `/v1` or not. An https
/// server has to show a certificate that this system trusts.
pub async fn list_models(url: &str) -> Result<Vec<String>, DiscoverError> {
    ask(url, &Trust::system()).await
}

async fn ask(url: &str, trust: &Trust) -> Result<Vec<String>, DiscoverError> {
    let endpoint: Endpoint =
        url.parse().map_err(|source| DiscoverError::Url { url: without_user(url), source })?;
    let no_answer = |problem: String| DiscoverError::NoAnswer { url: url.to_owned(), problem };
    let not_a_list = |problem: String| DiscoverError::NotAList { url: url.to_owned(), problem };
    let target = Target::new(endpoint);
    let tcp: Arc<dyn Connector> = Arc::new(TcpConnector);
    let connector = trust.connector_for(&target, &tcp).map_err(|error| no_answer(error.to_string()))?;
    let path = target.join("/v1/models").map_err(|error| no_answer(error.to_string()))?;
    let settings = UpstreamSettings {
        target,
        headers: Vec::new(),
        connect_limit: LIMIT,
        first_byte_limit: LIMIT,
        idle_limit: LIMIT,
    };
    let upstream = Upstream::new(settings, connector, 1);
    let call = Call {
        method: Method::GET,
        path,
        headers: HeaderMap::new(),
        payload: Payload::Whole(VecDeque::new()),
    };
    let mut answer = upstream.call(call).await.map_err(|error: CallError| no_answer(error.to_string()))?;
    if answer.status() != StatusCode::OK {
        return Err(not_a_list(format!("status {}", answer.status().as_u16())));
    }
    let mut body = Vec::new();
    while let Some(bytes) = answer.chunk().await.map_err(|error| no_answer(error.to_string()))? {
        if body.len() + bytes.len() > LIST_BYTES {
            return Err(not_a_list(format!("more than {LIST_BYTES} bytes")));
        }
        body.extend_from_slice(&bytes);
    }
    let list: List = serde_json::from_slice(&body).map_err(|error| not_a_list(error.to_string()))?;
    Ok(list.data.into_iter().map(|entry| entry.id).collect())
}

#[cfg(test)]
mod tests {
    use super::{DiscoverError, ask, list_models};
    use crate::upstream::Trust;
    use iop_tests::engine::Engine;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::net::SocketAddr;
    use std::sync::Arc;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;

    /// Speaks TLS in front of `engine`, as `localhost`; the certificate is its own root.
    async fn tls_in_front_of(engine: SocketAddr) -> (String, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let root = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![root.clone()], key)
            .expect("good credentials");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("https://localhost:{}", listener.local_addr().expect("a bound socket").port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut client) = acceptor.accept(stream).await else { continue };
                let mut server = TcpStream::connect(engine).await.expect("the engine listens");
                // Either end may go away at any time.
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
        (url, root)
    }

    #[tokio::test]
    async fn the_models_are_found_whether_or_not_the_url_names_the_version_of_the_api() {
        let engine = Engine::start();
        let models = list_models(&engine.endpoint()).await.expect("a list");
        assert!(!models.is_empty());
        for end in ["/", "/v1", "/v1/"] {
            let url = format!("{}{end}", engine.endpoint());
            assert_eq!(list_models(&url).await.expect("a list"), models, "{url}");
        }
        assert!(engine.look(|log| log.requests.iter().all(|request| request.path == "/v1/models")));
    }

    #[tokio::test]
    async fn an_https_server_is_asked_if_it_is_trusted() {
        let engine = Engine::start();
        let (url, root) = tls_in_front_of(engine.address()).await;
        let models = ask(&format!("{url}/v1/"), &Trust::only(vec![root])).await.expect("a list");
        assert_eq!(models, list_models(&engine.endpoint()).await.expect("a list"));
        let strange = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        for (roots, problem) in [
            (vec![strange.cert.der().clone()], "TLS failed: invalid peer certificate"),
            (Vec::new(), "this node cannot check certificates"),
        ] {
            let error = ask(&url, &Trust::only(roots)).await.expect_err("no trust");
            assert!(matches!(error, DiscoverError::NoAnswer { .. }), "{error}");
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[tokio::test]
    async fn what_is_no_url_and_a_server_without_a_list_are_told_apart() {
        let error = list_models("llama.example.com").await.expect_err("no URL");
        assert!(matches!(error, DiscoverError::Url { .. }), "{error}");
        let engine = Engine::start();
        let error = list_models(&format!("{}/elsewhere", engine.endpoint())).await.expect_err("no list");
        assert!(matches!(error, DiscoverError::NotAList { .. }), "{error}");
        engine.crash();
        let error = list_models(&engine.endpoint()).await.expect_err("nobody there");
        assert_eq!(
            error.to_string(),
            format!("cannot ask {0} for its models: {0} refused the connection", engine.endpoint())
        );
    }
}
