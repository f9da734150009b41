//! Reads the snapshot of an edge once, over plain HTTP, within a time and a size. What it says of a failure is for people.

use super::admin_url::AdminUrl;
use super::snapshot::Snapshot;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use iop_config::{EnvName, Secret};
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::net::TcpStream;

const PATH: &str = "/admin/v1/snapshot";

/// Longest wait for a whole answer, from looking up the name to the last byte.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest answer that is read, in bytes. A provider takes some 400 of them.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Which edge is asked, and with what key.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) admin: AdminUrl,
    /// The key, and the variable that it stood in.
    pub(super) key: Option<(EnvName, Secret)>,
}

/// A snapshot, and the JSON that it was read from.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) json: String,
    pub(super) snapshot: Snapshot,
}

/// Why there is no snapshot. Asking again is always safe.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// Nothing takes connections there.
    #[error(
        "nothing listens at {0}: is the edge running? Its `ready` line says where its admin listener is (--admin)"
    )]
    Refused(AdminUrl),
    /// The name or the way there is wrong.
    #[error("cannot connect to {0}: {1}")]
    Connect(AdminUrl, #[source] io::Error),
    /// It takes too long.
    #[error("{0} did not answer within {limit} s", limit = TIMEOUT.as_secs())]
    Timeout(AdminUrl),
    /// Something that does not speak HTTP.
    #[error("{0} is no admin listener of an edge: it does not answer in plain HTTP")]
    NotHttp(AdminUrl),
    /// The connection ended in the answer.
    #[error("{0} broke off its answer: {1}")]
    Broken(AdminUrl, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// More than a snapshot can be.
    #[error("{0} is no admin listener of an edge: its answer is longer than {limit} MiB", limit = MAX_ANSWER_BYTES >> 20)]
    TooLarge(AdminUrl),
    /// A key is needed.
    #[error(
        "the edge at {0} asks for a key (its admin.key_env): put it into a variable, and name that with --key-env NAME"
    )]
    NoKey(AdminUrl),
    /// The key is not the right one.
    #[error(
        "the edge at {0} refuses the key in `{1}`: set it to what the edge has in the variable of its admin.key_env"
    )]
    WrongKey(AdminUrl, EnvName),
    /// Another service, or another listener of an edge.
    #[error("{0} is no admin listener of an edge: it answers {1} to GET {PATH}")]
    Status(AdminUrl, StatusCode),
    /// 200, but something else.
    #[error("{0} is no admin listener of an edge: its answer is no snapshot ({1})")]
    NotASnapshot(AdminUrl, String),
}

/// Asks once.
pub(super) async fn fetch(source: &Source) -> Result<Reading, FetchError> {
    let admin = || source.admin.clone();
    let answer = tokio::time::timeout(TIMEOUT, ask(source)).await;
    let body = answer.unwrap_or_else(|_elapsed| Err(FetchError::Timeout(admin())))?;
    let json = String::from_utf8(body.into()).map_err(|_| not_a_snapshot(admin(), "it is no text"))?;
    match serde_json::from_str(&json) {
        Ok(snapshot) => Ok(Reading { json, snapshot }),
        Err(error) => Err(not_a_snapshot(admin(), &error.to_string())),
    }
}

async fn ask(source: &Source) -> Result<Bytes, FetchError> {
    let admin = || source.admin.clone();
    let broken = |error: hyper::Error| {
        if error.is_parse() {
            FetchError::NotHttp(admin())
        } else {
            FetchError::Broken(admin(), error.into())
        }
    };
    let address = (source.admin.host(), source.admin.port());
    let stream = TcpStream::connect(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => FetchError::Refused(admin()),
        _ => FetchError::Connect(admin(), error),
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let exchange = async {
        let response = sender.send_request(request(source)).await.map_err(broken)?;
        match (response.status(), &source.key) {
            (StatusCode::OK, _) => read(response, source).await,
            (StatusCode::UNAUTHORIZED, None) => Err(FetchError::NoKey(admin())),
            (StatusCode::UNAUTHORIZED, Some((name, _))) => Err(FetchError::WrongKey(admin(), name.clone())),
            (status, _) => Err(FetchError::Status(admin(), status)),
        }
    };
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        // What has come before the connection's end is still to be taken, and its error comes through the exchange.
        _ended = connection => exchange.await,
    }
}

fn request(source: &Source) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = hyper::Uri::from_static(PATH);
    let value = |text: &str| HeaderValue::try_from(text).expect("hosts and keys are visible ASCII");
    let headers = request.headers_mut();
    headers.insert(HOST, value(&source.admin.to_string()));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("iop/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if let Some((_, key)) = &source.key {
        let mut bearer = value(&format!("Bearer {}", key.expose()));
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    request
}

async fn read(response: Response<Incoming>, source: &Source) -> Result<Bytes, FetchError> {
    match Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLarge(source.admin.clone())),
        Err(error) => Err(FetchError::Broken(source.admin.clone(), error)),
    }
}

/// `what` may quote the answer.
fn not_a_snapshot(admin: AdminUrl, what: &str) -> FetchError {
    let what = super::text::Text::from(what);
    FetchError::NotASnapshot(admin, super::text::shortened(what.as_str(), 120))
}
