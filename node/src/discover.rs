//! Asks an OpenAI-compatible server for its models, for those who have a URL and no configuration yet.

use crate::upstream::{Call, CallError, Payload, Target, TcpConnector, Upstream, UpstreamSettings};
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

/// The ids of the models that the server at `url` lists under `/v1/models`.
pub async fn list_models(url: &str) -> Result<Vec<String>, DiscoverError> {
    let endpoint: Endpoint =
        url.parse().map_err(|source| DiscoverError::Url { url: without_user(url), source })?;
    let no_answer = |problem: String| DiscoverError::NoAnswer { url: url.to_owned(), problem };
    let not_a_list = |problem: String| DiscoverError::NotAList { url: url.to_owned(), problem };
    if endpoint.https() {
        return Err(no_answer("https is not supported for inference servers; use http".into()));
    }
    let target = Target::new(endpoint);
    let path = target.join("/v1/models").map_err(|error| no_answer(error.to_string()))?;
    let settings = UpstreamSettings {
        target,
        headers: Vec::new(),
        connect_limit: LIMIT,
        first_byte_limit: LIMIT,
        idle_limit: LIMIT,
    };
    let upstream = Upstream::new(settings, Arc::new(TcpConnector), 1);
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
