//! `iop demo --smoke` [capacity-smoke]: the promise, checked in a minute. An edge, a node and a server with room for one
//! request; two names of that server's models called at once; the server's own count and every counter of the edge at the
//! end.

use crate::arguments::Demo;
use crate::demo;
use crate::failure::Failure;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The two names of the one server's models.
const MODELS: [&str; 2] = ["smoke-a", "smoke-b"];

/// Requests sent at once.
const REQUESTS: usize = 8;

/// How long the server works on each.
const WORK: Duration = Duration::from_millis(50);

/// Longest wait for the whole check.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Any free port of this machine.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// How many requests the server sees.
#[derive(Default)]
struct Count {
    now: AtomicU32,
    peak: AtomicU32,
    total: AtomicU32,
}

pub(crate) async fn run(options: Demo, stop: CancellationToken) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::other(format!("the smoke check cannot start: {error}"));
    let listener = TcpListener::bind(ANY).await.map_err(failed)?;
    let url = format!("http://{}", listener.local_addr().map_err(failed)?);
    let count = Arc::new(Count::default());
    tokio::spawn(serve(listener, count.clone()));

    let options =
        Demo { http: ANY, admin: ANY, quic: ANY, providers: vec![url], capacity: NonZeroU32::MIN, ..options };
    let (is_ready, ready) = oneshot::channel();
    let demo = demo::serve(&options, stop.clone(), |addresses, _model| {
        let _check_ended_first = is_ready.send(*addresses);
    });
    let check = async {
        let Ok(addresses) = ready.await else { return Err(Failure::other("the demo did not start")) };
        let checked = tokio::time::timeout(TIMEOUT, check(addresses.http, addresses.admin, &count)).await;
        stop.cancel();
        checked.unwrap_or_else(|_elapsed| Err(Failure::other("the smoke check did not end in time")))
    };
    let (demo, check) = tokio::join!(demo, check);
    demo?;
    check
}

/// Calls both models at once and compares every count with what it must be.
async fn check(edge: SocketAddr, admin: SocketAddr, count: &Count) -> Result<ExitCode, Failure> {
    let calls: Vec<_> = (0..REQUESTS)
        .map(|number| {
            let body = json!({ "model": MODELS[number % MODELS.len()], "messages": [] });
            tokio::spawn(call(edge, "POST", "/v1/chat/completions", body.to_string()))
        })
        .collect();
    let mut answered = 0;
    for call in calls {
        let (status, _) = call.await.map_err(Failure::other)?.map_err(Failure::other)?;
        answered += u32::from(status == 200);
    }
    let snapshot = settled(admin).await?;
    let requests = REQUESTS as u64;
    let provider = &snapshot["nodes"][0]["providers"][0];
    let rows = [
        ("requests answered", u64::from(answered).into(), requests),
        ("requests the server saw", u64::from(count.total.load(Ordering::Relaxed)).into(), requests),
        ("most at once at the server", u64::from(count.peak.load(Ordering::Relaxed)).into(), 1),
        ("leases acquired", snapshot["leases"]["acquired_total"].clone(), requests),
        ("leases released", snapshot["leases"]["released_total"].clone(), requests),
        ("leases fenced", snapshot["leases"]["fenced_total"].clone(), 0),
        ("leases active", snapshot["leases"]["active"].clone(), 0),
        ("provider in_flight", provider["in_flight"].clone(), 0),
        ("provider long_in_flight", provider["long_in_flight"].clone(), 0),
        ("provider queued", provider["queued"].clone(), 0),
        ("queue length", snapshot["queue"]["length"].clone(), 0),
    ];
    let mut is_right = true;
    for (what, found, expected) in rows {
        let found: Value = found;
        let verdict = if found == expected { "ok" } else { "WRONG" };
        is_right &= found == expected;
        println!("{what:<28} {found:>4}   expected {expected:>3}   {verdict}");
    }
    println!("{}", if is_right { "smoke passed" } else { "smoke failed" });
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The snapshot once every lease is back: the last slot returns a moment after its answer.
async fn settled(admin: SocketAddr) -> Result<Value, Failure> {
    loop {
        let (_, body) =
            call(admin, "GET", "/admin/v1/snapshot", String::new()).await.map_err(Failure::other)?;
        let snapshot: Value = serde_json::from_slice(&body).map_err(Failure::other)?;
        if snapshot["leases"]["active"] == 0 {
            return Ok(snapshot);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn call(address: SocketAddr, method: &str, path: &str, body: String) -> Result<(u16, Bytes), String> {
    let describe = |error: &dyn std::fmt::Display| format!("{method} {path}: {error}");
    let stream = TcpStream::connect(address).await.map_err(|error| describe(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| describe(&error))?;
    let request = Request::builder().method(method).uri(path).header(HOST, address.to_string());
    let request = request.body(Full::<Bytes>::from(body)).map_err(|error| describe(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
    };
    tokio::select! {
        answer = exchange => answer.map_err(|error| describe(&error)),
        ended = connection => Err(describe(&format!("the connection ended: {ended:?}"))),
    }
}

/// The server with room for one request. It counts, and takes whatever comes.
async fn serve(listener: TcpListener, count: Arc<Count>) {
    while let Ok((stream, _)) = listener.accept().await {
        let count = count.clone();
        let answer = service_fn(move |request| answer(request, count.clone()));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
        );
    }
}

async fn answer(request: Request<Incoming>, count: Arc<Count>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = if request.uri().path() == "/v1/models" {
        json!({ "object": "list", "data": MODELS.map(|id| json!({ "id": id })) })
    } else {
        count.total.fetch_add(1, Ordering::Relaxed);
        let now = count.now.fetch_add(1, Ordering::Relaxed) + 1;
        count.peak.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(WORK).await;
        count.now.fetch_sub(1, Ordering::Relaxed);
        json!({ "object": "chat.completion", "choices": [] })
    };
    let mut response = Response::new(Full::from(body.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}
