//! What the tests of this program share: the usual deployment, and HTTP/2 with and without TLS.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::Engine;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The built binary.
pub(crate) const IOP: &str = env!("CARGO_BIN_EXE_iop");

/// Longest wait for anything that takes milliseconds. Generous: the whole suite shares two cores.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The model that clients ask for, and its name at the provider.
pub(crate) const MODEL: &str = "ornith:35b";
pub(crate) const UPSTREAM: &str = "scripted";

/// An edge, the node `gpu-a`, and this engine as its provider.
pub(crate) fn plan(engine: &Engine, capacity: u32) -> Plan {
    Plan::new().provider("gpu-a", "engine", &engine.endpoint(), capacity).model(
        MODEL,
        &[("gpu-a", "engine")],
        UPSTREAM,
    )
}

pub(crate) async fn deploy(plan: Plan) -> Deployment {
    Deployment::start(IOP, plan).await
}

/// A chat of the model, as JSON.
pub(crate) fn chat(stream: bool) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "stream": stream})
}

/// Waits until no lease is out and nobody waits.
pub(crate) async fn wait_for_rest(iop: &Deployment) {
    wait_until_async("no lease and no queue", DEADLINE, async || {
        let snapshot = iop.snapshot().await;
        let at_rest = snapshot["leases"]["active"] == 0 && snapshot["queue"]["length"] == 0;
        if at_rest { Ok(()) } else { Err(snapshot) }
    })
    .await;
}

/// A connection that speaks HTTP/2 from its first byte, with this stream window.
pub(crate) async fn http2<I>(io: I, window: u32) -> SendRequest<Full<Bytes>>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(io)).await.expect("HTTP/2 is spoken");
    // Its error comes to whoever reads an answer.
    tokio::spawn(async move { drop(connection.await) });
    sender
}

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("the edge listens")
}

/// A request over HTTP/2.
pub(crate) async fn request(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: impl Into<Bytes>,
) -> Response<Incoming> {
    let request = Request::builder()
        .method(method)
        .uri(format!("http://edge{path}"))
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .expect("a request");
    let answer = tokio::time::timeout(DEADLINE, sender.send_request(request)).await;
    answer.expect("an answer in time").expect("an answer")
}

/// The rest of a body.
pub(crate) async fn text(response: Response<Incoming>) -> String {
    let body = tokio::time::timeout(DEADLINE, response.into_body().collect()).await;
    let bytes = body.expect("the body ends in time").expect("a clean end").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("the body is text")
}
