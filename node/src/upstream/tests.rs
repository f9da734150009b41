//! The upstream client against a server that is a test's own code at the other end of a pipe, in virtual time.

use super::{
    Answer, ByteStream, Call, CallError, ConnectError, Connecting, Connector, Payload, Target, Upload,
    Upstream, UpstreamSettings,
};
use bytes::Bytes;
use http::{HeaderMap, Method};
use iop_transport::wire::RefusalReason;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

const CONNECT: Duration = Duration::from_secs(3);
const FIRST_BYTE: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(5);

/// Connections that end in the test.
struct Pipes(mpsc::UnboundedSender<DuplexStream>);

impl Connector for Pipes {
    fn connect<'a>(&'a self, _host: &'a str, _port: u16) -> Connecting<'a> {
        let (ours, theirs) = tokio::io::duplex(16 << 10);
        let accepted = self.0.send(theirs).map_err(|_gone| refused());
        Box::pin(async move { accepted.map(|()| Box::new(ours) as Box<dyn ByteStream>) })
    }
}

fn refused() -> ConnectError {
    ConnectError::Connect(io::ErrorKind::ConnectionRefused.into())
}

/// Fails as it is told to, or never comes to an end.
struct Failing(Mutex<mpsc::Receiver<ConnectError>>);

impl Connector for Failing {
    fn connect<'a>(&'a self, _host: &'a str, _port: u16) -> Connecting<'a> {
        Box::pin(async move {
            match self.0.lock().await.recv().await {
                Some(error) => Err(error),
                None => std::future::pending().await,
            }
        })
    }
}

fn upstream(connector: Arc<dyn Connector>, capacity: u32) -> Upstream {
    let settings = UpstreamSettings {
        target: Target::new("http://engine:8081".parse().expect("an endpoint")),
        headers: Vec::new(),
        connect_limit: CONNECT,
        first_byte_limit: FIRST_BYTE,
        idle_limit: IDLE,
    };
    Upstream::new(settings, connector, capacity)
}

fn piped(capacity: u32) -> (Arc<Upstream>, mpsc::UnboundedReceiver<DuplexStream>) {
    let (sender, accept) = mpsc::unbounded_channel();
    (Arc::new(upstream(Arc::new(Pipes(sender)), capacity)), accept)
}

fn call(payload: Payload) -> Call {
    Call { method: Method::POST, path: "/v1/x".parse().expect("a path"), headers: HeaderMap::new(), payload }
}

fn small() -> Call {
    call(Payload::Whole([Bytes::from_static(b"{}")].into()))
}

/// Asks in a task of its own.
fn ask(upstream: &Arc<Upstream>, call: Call) -> tokio::task::JoinHandle<Result<Answer, CallError>> {
    let upstream = Arc::clone(upstream);
    tokio::spawn(async move { upstream.call(call).await })
}

/// Reads the request of [`small`] on the server's side.
async fn receive(server: &mut DuplexStream) {
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n{}") {
        let byte = server.read_u8().await.expect("the rest of the request");
        received.push(byte);
    }
}

async fn say(server: &mut DuplexStream, bytes: &str) {
    server.write_all(bytes.as_bytes()).await.expect("the client listens");
}

/// Whether the client has closed its end, in whatever state.
async fn is_closed(server: &mut DuplexStream) -> bool {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_millis(1), server.read_to_end(&mut rest)).await;
    read.is_ok()
}

async fn end(answer: &mut Answer) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(bytes) = answer.chunk().await.expect("a whole answer") {
        body.extend_from_slice(&bytes);
    }
    body
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// One whole exchange on the next connection or on this one.
async fn exchange(upstream: &Arc<Upstream>, server: &mut DuplexStream) {
    let asked = ask(upstream, small());
    receive(server).await;
    say(server, OK).await;
    let mut answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!(end(&mut answer).await, b"ok");
}

/// The first exchange, which opens the connection.
async fn first_exchange(
    upstream: &Arc<Upstream>,
    accept: &mut mpsc::UnboundedReceiver<DuplexStream>,
) -> DuplexStream {
    let asked = ask(upstream, small());
    let mut server = accept.recv().await.expect("a connection");
    receive(&mut server).await;
    say(&mut server, OK).await;
    let mut answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!(end(&mut answer).await, b"ok");
    server
}

#[tokio::test(start_paused = true)]
async fn connecting_has_its_own_limit() {
    let (_sender, errors) = mpsc::channel(1);
    let upstream = upstream(Arc::new(Failing(Mutex::new(errors))), 1);
    let begun = Instant::now();
    let error = upstream.call(small()).await.err().expect("no connection");
    assert_eq!(error.to_string(), "http://engine:8081 did not accept a connection within 3000 ms");
    assert_eq!((error.reason(), begun.elapsed().as_secs()), (RefusalReason::Unreachable, 3));
}

#[tokio::test(start_paused = true)]
async fn a_failed_connect_is_told_so_that_a_person_understands_it() {
    let (sender, errors) = mpsc::channel(1);
    let upstream = upstream(Arc::new(Failing(Mutex::new(errors))), 1);
    let no_name = io::Error::other("no such name");
    let cases = [
        (refused(), "http://engine:8081 refused the connection"),
        (
            ConnectError::Connect(io::ErrorKind::HostUnreachable.into()),
            "http://engine:8081 has no route from this node: host unreachable",
        ),
        (
            ConnectError::Resolve(no_name),
            "http://engine:8081 cannot be connected to: its name cannot be resolved: no such name",
        ),
    ];
    for (cause, text) in cases {
        sender.send(cause).await.expect("the connector listens");
        let error = upstream.call(small()).await.err().expect("no connection");
        assert_eq!((error.reason(), error.to_string().as_str()), (RefusalReason::Unreachable, text));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_begin_its_answer_in_time_is_hung_up_on() {
    let (upstream, mut accept) = piped(1);
    let begun = Instant::now();
    let asked = ask(&upstream, small());
    let mut server = accept.recv().await.expect("a connection");
    receive(&mut server).await;
    let error = asked.await.expect("no panic").err().expect("no answer");
    assert_eq!(error.reason(), RefusalReason::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), FIRST_BYTE.as_secs());
    assert!(is_closed(&mut server).await);
}

#[tokio::test(start_paused = true)]
async fn the_limit_for_the_first_byte_starts_anew_while_the_server_takes_the_body() {
    let (upstream, mut accept) = piped(1);
    let begun = Instant::now();
    let upload = Arc::new(Upload::new());
    let asked = ask(&upstream, call(Payload::Streamed(Arc::clone(&upload), 4)));
    let mut server = accept.recv().await.expect("a connection");
    for _ in 0..4 {
        tokio::time::sleep(FIRST_BYTE - Duration::from_secs(1)).await;
        upload.push(Bytes::from_static(b"x"));
    }
    let mut request = vec![0; 1024];
    while !request.ends_with(b"xxxx") {
        request.push(server.read_u8().await.expect("the rest of the request"));
    }
    let error = asked.await.expect("no panic").err().expect("no answer");
    assert_eq!(error.reason(), RefusalReason::TimedOut);
    assert_eq!(begun.elapsed(), 4 * (FIRST_BYTE - Duration::from_secs(1)) + FIRST_BYTE);
}

#[tokio::test(start_paused = true)]
async fn only_silence_ends_an_answer_never_its_length_nor_a_slow_reader() {
    let (upstream, mut accept) = piped(1);
    let asked = ask(&upstream, small());
    let mut server = accept.recv().await.expect("a connection");
    receive(&mut server).await;
    say(&mut server, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n").await;
    let mut answer = asked.await.expect("no panic").expect("an answer");
    let writer = tokio::spawn(async move {
        for _ in 0..20 {
            tokio::time::sleep(IDLE - Duration::from_millis(1)).await;
            say(&mut server, "x").await;
        }
        server
    });
    for _ in 0..20 {
        assert_eq!(answer.chunk().await.expect("a byte in time").as_deref(), Some(&b"x"[..]));
    }
    let mut server = writer.await.expect("no panic");
    tokio::time::sleep(2 * IDLE).await;
    say(&mut server, "y").await;
    assert_eq!(answer.chunk().await.expect("a byte in time").as_deref(), Some(&b"y"[..]));
    let begun = Instant::now();
    let error = answer.chunk().await.expect_err("silence");
    assert_eq!(error.code(), iop_transport::codes::StreamCode::UpstreamStalled);
    assert_eq!(begun.elapsed().as_secs(), IDLE.as_secs());
    drop(answer);
    assert!(is_closed(&mut server).await);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_and_a_dropped_answer_have_closed_their_connection() {
    let (upstream, mut accept) = piped(1);
    let mut asking = Box::pin(upstream.call(small()));
    let mut server = tokio::select! {
        _ = &mut asking => panic!("nothing answers"),
        server = accept.recv() => server.expect("a connection"),
    };
    tokio::select! {
        _ = &mut asking => panic!("nothing answers"),
        () = receive(&mut server) => {}
    }
    drop(asking);
    assert!(
        server.write_all(b"x").await.is_err(),
        "the other end is gone at once, without another task's turn"
    );

    let asked = ask(&upstream, small());
    let mut server = accept.recv().await.expect("a connection");
    receive(&mut server).await;
    say(&mut server, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    let mut answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!(answer.chunk().await.expect("bytes").as_deref(), Some(&b"half"[..]));
    drop(answer);
    assert!(server.write_all(b"x").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_is_used_again_and_closed_after_30_seconds() {
    let (upstream, mut accept) = piped(1);
    let mut server = first_exchange(&upstream, &mut accept).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(29)).await;
        exchange(&upstream, &mut server).await;
    }
    let begun = Instant::now();
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).await.expect("an orderly end");
    assert_eq!((rest.len(), begun.elapsed().as_secs()), (0, 30));
    assert!(accept.try_recv().is_err(), "one connection served all");
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_the_server_closes_or_talks_on_is_closed_at_once() {
    for last in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let (upstream, mut accept) = piped(1);
        let mut server = first_exchange(&upstream, &mut accept).await;
        say(&mut server, last).await;
        server.shutdown().await.expect("an open connection");
        assert!(is_closed(&mut server).await, "{last:?}");
        first_exchange(&upstream, &mut accept).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_connections_are_kept_than_runs_may_be() {
    let (upstream, mut accept) = piped(2);
    let mut servers = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let asked = ask(&upstream, small());
        let mut server = accept.recv().await.expect("a connection");
        receive(&mut server).await;
        say(&mut server, OK).await;
        answers.push(asked.await.expect("no panic").expect("an answer"));
        servers.push(server);
    }
    for answer in &mut answers {
        assert_eq!(end(answer).await, b"ok");
    }
    let mut closed = Vec::new();
    for server in &mut servers {
        closed.push(is_closed(server).await);
    }
    assert_eq!(closed, [false, false, true]);
    upstream.set_capacity(1);
    assert!(is_closed(&mut servers[0]).await, "the oldest goes first");
    assert!(!is_closed(&mut servers[1]).await);
    drop(upstream);
    drop(answers);
    assert!(is_closed(&mut servers[1]).await, "none is left behind");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_kept_when_the_server_says_so() {
    let (upstream, mut accept) = piped(1);
    let asked = ask(&upstream, small());
    let mut server = accept.recv().await.expect("a connection");
    receive(&mut server).await;
    say(&mut server, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await;
    let mut answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!(end(&mut answer).await, b"ok");
    assert!(is_closed(&mut server).await);
}

/// Asks on a kept connection, which the server ends after `delay` with `last` as its only words.
async fn dies_under_a_request(last: &str, delay: Duration) -> (bool, Result<Answer, CallError>) {
    let (upstream, mut accept) = piped(1);
    let mut server = first_exchange(&upstream, &mut accept).await;
    let asked = ask(&upstream, small());
    receive(&mut server).await;
    tokio::time::sleep(delay).await;
    say(&mut server, last).await;
    drop(server);
    let again = tokio::time::timeout(Duration::from_millis(1), accept.recv()).await;
    let asked_again = again.is_ok();
    if let Ok(server) = again {
        let mut server = server.expect("a connection");
        receive(&mut server).await;
        say(&mut server, OK).await;
    }
    (asked_again, asked.await.expect("no panic"))
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_only_if_the_kept_connection_was_dead_already() {
    let (again, answer) = dies_under_a_request("", Duration::ZERO).await;
    assert!(again && answer.is_ok());
    for (last, delay) in [("H", Duration::ZERO), ("", Duration::from_secs(2))] {
        let (again, answer) = dies_under_a_request(last, delay).await;
        let error = answer.err().expect("no answer");
        assert_eq!((again, error.reason()), (false, RefusalReason::BadAnswer), "{last:?} {delay:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_sent_again_gets_a_connection_of_its_own() {
    let (upstream, mut accept) = piped(2);
    let mut kept = first_exchange(&upstream, &mut accept).await;
    let upload = Arc::new(Upload::new());
    upload.push(Bytes::from_static(b"{}"));
    let asked = ask(&upstream, call(Payload::Streamed(upload, 2)));
    let mut server = accept.recv().await.expect("a second connection");
    receive(&mut server).await;
    say(&mut server, OK).await;
    let mut answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!(end(&mut answer).await, b"ok");
    assert!(!is_closed(&mut kept).await && !is_closed(&mut server).await, "both are kept");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_before_the_whole_body_was_taken_is_whole_but_its_connection_is_not_kept() {
    let (upstream, mut accept) = piped(1);
    let upload = Arc::new(Upload::new());
    upload.push(Bytes::from_static(b"{}"));
    let asked = ask(&upstream, call(Payload::Streamed(Arc::clone(&upload), 1000)));
    let mut server = accept.recv().await.expect("a connection");
    receive(&mut server).await;
    say(&mut server, "HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
    let mut answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!((answer.status().as_u16(), end(&mut answer).await), (413, b"big".to_vec()));
    assert!(is_closed(&mut server).await);
}
