//! A node's providers behind a real connection, the edge's half of runs on it, and a journal of what happened in which
//! order: upstream connections opened and closed, leases returned.

use super::link::Link;
use bytes::Bytes;
use iop_node::{ByteStream, Connecting, Connector, Providers, TcpConnector};
use iop_transport::tunnel::{EdgeRun, NodeRun, Patience, RunLost};
use iop_transport::wire::{
    Adapter, Applied, Apply, Header, NormalizedRequest, Operation, ProviderSettings, Refusal, RunEvent,
    RunHead, RunReply, RunRequest, TunnelRequest,
};
use rustls::pki_types::CertificateDer;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Far beyond what anything here takes; only a hang reaches it.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// More than any wait here takes.
const PATIENT: Patience = Patience { reply: Duration::from_secs(60), idle: Duration::from_secs(60) };

/// The generation that the lab's connection owns.
pub(super) const GENERATION: u64 = 7;

/// Waits with a deadline.
pub(super) async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect("it happens before the deadline")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// An upstream connection was opened.
    Opened,
    /// An upstream connection was closed: its socket is gone.
    Closed,
    /// The edge got this lease back.
    Returned(u64),
}

/// What happened, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal(Arc<Mutex<Vec<Event>>>);

impl Journal {
    fn push(&self, event: Event) {
        self.0.lock().expect("no panic under this lock").push(event);
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.0.lock().expect("no panic under this lock").clone()
    }

    pub(super) fn count(&self, event: Event) -> usize {
        self.events().iter().filter(|seen| **seen == event).count()
    }

    pub(super) async fn wait_for(&self, event: Event) {
        iop_tests::deadline::wait_until(&format!("{event:?}"), DEADLINE, || {
            let events = self.events();
            if events.contains(&event) { Ok(()) } else { Err(events) }
        })
        .await;
    }
}

/// Something held while a run is on; its drop is written down.
pub(super) struct Lease(u64, Journal);

impl Drop for Lease {
    fn drop(&mut self) {
        self.1.push(Event::Returned(self.0));
    }
}

pub(super) type Run = EdgeRun<Lease>;

/// Plain TCP, or another connector, whose connections are written down.
struct Recorded {
    inner: Arc<dyn Connector>,
    journal: Journal,
}

struct RecordedStream {
    inner: Option<Box<dyn ByteStream>>,
    journal: Journal,
}

impl Connector for Recorded {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(async move {
            let inner = Some(self.inner.connect(host, port).await?);
            self.journal.push(Event::Opened);
            Ok(Box::new(RecordedStream { inner, journal: self.journal.clone() }) as Box<dyn ByteStream>)
        })
    }
}

impl RecordedStream {
    fn inner(&mut self) -> Pin<&mut dyn ByteStream> {
        Pin::new(self.inner.as_mut().expect("the stream is there until the drop"))
    }
}

impl Drop for RecordedStream {
    fn drop(&mut self) {
        drop(self.inner.take());
        self.journal.push(Event::Closed);
    }
}

impl AsyncRead for RecordedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(cx, buffer)
    }
}

impl AsyncWrite for RecordedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(cx)
    }
}

/// A node that serves every run of its connection.
pub(super) struct Lab {
    pub(super) link: Link,
    pub(super) providers: Arc<Providers>,
    pub(super) journal: Journal,
    leases: Mutex<u64>,
}

impl Lab {
    /// A lab with these providers, all of them in force.
    pub(super) async fn start(providers: impl IntoIterator<Item = ProviderSettings>) -> Self {
        Self::start_with(Arc::new(TcpConnector), providers).await
    }

    /// A lab whose node connects by `connector`.
    pub(super) async fn start_with(
        connector: Arc<dyn Connector>,
        providers: impl IntoIterator<Item = ProviderSettings>,
    ) -> Self {
        let lab = Self::start_trusting(Vec::new(), connector).await;
        let applied = lab.apply(providers);
        assert_eq!(applied.refused, [], "every provider is in force");
        lab
    }

    /// A lab without providers, whose node trusts https servers by these roots.
    pub(super) async fn start_trusting(
        roots: Vec<CertificateDer<'static>>,
        connector: Arc<dyn Connector>,
    ) -> Self {
        let journal = Journal::default();
        let connector = Arc::new(Recorded { inner: connector, journal: journal.clone() });
        let allowed = ["http://127.0.0.1:*", "http://localhost:*", "https://localhost:*"];
        let allowed = allowed.map(|pattern| pattern.parse().expect("a pattern")).to_vec();
        let env = |name: &str| {
            let known = [("ENGINE_KEY", "the-engines-key"), ("OTHER_KEY", "another-key"), ("EMPTY_KEY", "")];
            known.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        let table = Arc::new(Providers::new(connector, allowed, env).with_roots(roots));
        let link = Link::new().await;
        tokio::spawn(serve(link.at_node.clone(), Arc::clone(&table)));
        Self { link, providers: table, journal, leases: Mutex::new(0) }
    }

    pub(super) fn apply(&self, providers: impl IntoIterator<Item = ProviderSettings>) -> Applied {
        self.providers.apply(&Apply { revision: 1, providers: providers.into_iter().collect() })
    }

    /// Opens a run and gives its number.
    pub(super) async fn open(&self, provider: &str, request: RunRequest, body: &[u8]) -> (u64, Run) {
        self.open_under(GENERATION, provider, request, body).await
    }

    pub(super) async fn open_under(
        &self,
        generation: u64,
        provider: &str,
        request: RunRequest,
        body: &[u8],
    ) -> (u64, Run) {
        let lease = {
            let mut leases = self.leases.lock().expect("no panic under this lock");
            *leases += 1;
            *leases
        };
        let body_len = body.len() as u64;
        let head = RunHead { lease, generation, provider: provider.into(), request, body_len };
        let body = vec![Bytes::copy_from_slice(body)];
        let guard = Lease(lease, self.journal.clone());
        (
            lease,
            within(EdgeRun::open(&self.link.at_edge, &head, body, guard, PATIENT)).await.expect("a stream"),
        )
    }

    /// A whole chat request through a tunnel.
    pub(super) async fn chat(&self, provider: &str) -> Outcome {
        let (_, run) = self.open(provider, tunnel("POST", "/v1/chat/completions"), CHAT).await;
        Outcome::of(run).await
    }

    /// Waits until the node ended the run after a cancel.
    pub(super) async fn returned(&self, lease: u64) {
        self.journal.wait_for(Event::Returned(lease)).await;
    }
}

async fn serve(connection: iop_transport::Connection, providers: Arc<Providers>) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        let providers = Arc::clone(&providers);
        tokio::spawn(async move {
            if let Ok(run) = NodeRun::accept(send, recv).await {
                providers.serve(run, GENERATION).await;
            }
        });
    }
}

/// How a run ended, as the edge sees it.
#[derive(Debug)]
pub(super) enum Outcome {
    Answer { status: u16, headers: Vec<Header>, body: Vec<u8> },
    Events(Vec<RunEvent>),
    Refused(Refusal),
    Lost(RunLost),
}

impl Outcome {
    /// Reads the run to its end.
    pub(super) async fn of(mut run: Run) -> Self {
        within(async {
            match run.reply().await {
                Ok(RunReply::Response { status, headers }) => match read(&mut run).await {
                    Ok(body) => Self::Answer { status, headers, body },
                    Err(lost) => Self::Lost(lost),
                },
                Ok(RunReply::Started) => match events(&mut run).await {
                    Ok(events) => Self::Events(events),
                    Err(lost) => Self::Lost(lost),
                },
                Ok(RunReply::Refused(refusal)) => {
                    run.drain().await.expect("a refusal ends with a finish");
                    Self::Refused(refusal)
                }
                Err(lost) => Self::Lost(lost),
            }
        })
        .await
    }

    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            other => panic!("a refusal was expected: {other:?}"),
        }
    }

    pub(super) fn lost(self) -> RunLost {
        match self {
            Self::Lost(lost) => lost,
            other => panic!("a broken run was expected: {other:?}"),
        }
    }

    pub(super) fn events(self) -> Vec<RunEvent> {
        match self {
            Self::Events(events) => events,
            other => panic!("events were expected: {other:?}"),
        }
    }

    /// Status and body.
    pub(super) fn answer(self) -> (u16, Vec<u8>) {
        match self {
            Self::Answer { status, body, .. } => (status, body),
            other => panic!("an answer was expected: {other:?}"),
        }
    }
}

/// The next event of a normalized run.
pub(super) async fn event(run: &mut Run) -> Result<Option<RunEvent>, RunLost> {
    within(poll_fn(|cx| run.poll_event(cx))).await
}

/// The next bytes of a tunnel run.
pub(super) async fn chunk(run: &mut Run) -> Result<Option<Bytes>, RunLost> {
    within(poll_fn(|cx| run.poll_chunk(cx))).await
}

async fn read(run: &mut Run) -> Result<Vec<u8>, RunLost> {
    let mut body = Vec::new();
    while let Some(bytes) = chunk(run).await? {
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

async fn events(run: &mut Run) -> Result<Vec<RunEvent>, RunLost> {
    let mut events = Vec::new();
    while let Some(event) = poll_fn(|cx| run.poll_event(cx)).await? {
        events.push(event);
    }
    Ok(events)
}

/// A chat request that asks for no stream.
pub(super) const CHAT: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hello there"}]}"#;

/// A chat request that asks for a stream.
pub(super) const STREAM: &[u8] =
    br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello there"}]}"#;

pub(super) fn tunnel(method: &str, path: &str) -> RunRequest {
    let headers = vec![("content-type".into(), Bytes::from_static(b"application/json"))];
    RunRequest::Tunnel(TunnelRequest { method: method.into(), path: path.into(), headers })
}

pub(super) fn normalized(operation: Operation) -> RunRequest {
    RunRequest::Normalized(NormalizedRequest { operation, model: "m".into() })
}

/// An OpenAI-compatible provider with generous limits.
pub(super) fn openai(id: &str, endpoint: &str, capacity: u32) -> ProviderSettings {
    provider(id, Adapter::OpenAi { endpoint: endpoint.into() }, capacity)
}

/// An Ollama provider with generous limits.
pub(super) fn ollama(id: &str, endpoint: &str, capacity: u32) -> ProviderSettings {
    provider(id, Adapter::Ollama { endpoint: endpoint.into() }, capacity)
}

pub(super) fn echo(id: &str, words: u32, word_interval_ms: u64, capacity: u32) -> ProviderSettings {
    provider(id, Adapter::Echo { words, word_interval_ms }, capacity)
}

fn provider(id: &str, adapter: Adapter, capacity: u32) -> ProviderSettings {
    ProviderSettings {
        id: id.into(),
        adapter,
        capacity,
        api_key_env: None,
        headers: Vec::new(),
        connect_timeout_ms: 10_000,
        first_byte_timeout_ms: 15_000,
        idle_timeout_ms: 15_000,
    }
}
