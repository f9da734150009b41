//! HTTP connections: accepts them, serves them with a service, ends them at shutdown. What is answered is the service's.

mod pace;
mod paced_body;
mod tls;

use crate::listeners::{Accept, ClientStream};
use bytes::Bytes;
use http::{Request, Response, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use pace::PacedIo;
use paced_body::{BodyError, PacedBody};
use socket2::{SockRef, TcpKeepalive};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{debug, warn};

pub(crate) use pace::{ClientPace, StallLimit};
pub use tls::HttpTlsError;
pub(crate) use tls::Tls;

/// Longest time for a request's headers to come, so that silent connections do not pile up.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time that running requests get to end at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Silence after which a client's machine is asked whether it is still there, and how often it is asked again.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(15));

/// Bytes that may wait in the system for a client, beyond those on their way: so much more a client that stopped reading is
/// given, and so much a slow one must take within the stall limit to count as reading.
const UNSENT_BYTES: u32 = 128 << 10;

/// Pause after the system refused a connection for want of something, mostly file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Largest head of a request, in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// Longest time that connections get to close at shutdown when no request runs any more. What is left of an answer is then
/// in buffers, and who has sent half a request's head is not waited for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A listener and how its connections are treated.
pub(crate) struct Door {
    pub(crate) listener: Box<dyn Accept>,
    /// `None`: plain HTTP.
    pub(crate) tls: Option<Tls>,
    /// How long a client may take nothing of its answer.
    pub(crate) stall_limit: StallLimit,
}

/// Serves connections until `shutdown`, then lets running requests end within a bound.
pub(crate) async fn serve<S, F, B>(door: Door, shutdown: CancellationToken, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BodyError>,
{
    let Door { mut listener, tls, stall_limit } = door;
    let graceful = GracefulShutdown::new();
    let running = TaskTracker::new();
    let service = {
        let running = running.clone();
        move |request| {
            let (answer, token) = (service(request), running.token());
            async move { answer.await.map(|body| RunningBody { body, _running: token }) }
        }
    };
    let certificates = async {
        match &tls {
            Some(tls) => tls.watch().await,
            None => std::future::pending().await,
        }
    };
    let mut certificates = pin!(certificates);
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            () = &mut certificates => break,
            accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
        };
        match accepted {
            Ok(stream) => {
                let connection = Connection {
                    pace: ClientPace::default(),
                    stall_limit: stall_limit.clone(),
                    graceful: graceful.watcher(),
                };
                tokio::spawn(connection.run(stream, tls.clone(), service.clone()));
            }
            Err(error) => pause(&error).await,
        }
    }
    drop(listener);
    running.close();
    let mut closed = pin!(graceful.shutdown());
    tokio::select! {
        biased;
        () = &mut closed => return,
        () = running.wait() => {}
        () = tokio::time::sleep(DRAIN_TIMEOUT) => {
            let requests = running.len();
            warn!(requests, timeout_ms = DRAIN_TIMEOUT.as_millis(), "requests still running at shutdown are cut");
        }
    }
    if tokio::time::timeout(CLOSE_TIMEOUT, closed).await.is_err() {
        debug!("some connections did not close in time");
    }
}

/// One client's connection.
struct Connection {
    pace: ClientPace,
    stall_limit: StallLimit,
    graceful: Watcher,
}

impl Connection {
    async fn run<S, F, B>(self, stream: Box<dyn ClientStream>, tls: Option<Tls>, service: S)
    where
        S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let stream = PacedIo::new(stream, self.stall_limit.clone(), self.pace.clone());
        let Some(tls) = tls else { return self.serve(stream, service).await };
        let handshake = tls.acceptor().accept(stream);
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => self.serve(stream, service).await,
            Ok(Err(error)) => debug!(%error, "a TLS handshake failed"),
            Err(_elapsed) => debug!("a TLS handshake took too long"),
        }
    }

    async fn serve<I, S, F, B>(self, io: I, service: S)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let Self { pace, stall_limit, graceful } = self;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEAD_BYTES * 2);
        builder.http2().timer(TokioTimer::new()).max_header_list_size(HEAD_BYTES as u32);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let pace = pace.of_next_request();
            request.extensions_mut().insert(pace.clone());
            // Over HTTP/1.1 the connection is the stream, and its socket says everything.
            let is_stream = request.version() == Version::HTTP_2;
            let (answer, limit) = (service(request), stall_limit.clone());
            async move {
                let response = answer.await.map(|body| {
                    if is_stream {
                        Answer::Stream(PacedBody::new(body, limit, pace))
                    } else {
                        Answer::Connection(body)
                    }
                });
                Ok::<_, Infallible>(response)
            }
        });
        let connection = builder.serve_connection(TokioIo::new(io), service).into_owned();
        if let Err(error) = graceful.watch(connection).await {
            debug!(%error, "a client's connection ended badly");
        }
    }
}

/// Settings of a client's socket. Where the system lacks one, it goes without.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let (time, interval) = KEEP_ALIVE;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(time).with_interval(interval))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    Ok(())
}

/// The body of an answer, by what it is sent over.
enum Answer<B> {
    /// A whole connection.
    Connection(B),
    /// One of several streams.
    Stream(PacedBody<B>),
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Connection(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Stream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Connection(body) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Connection(body) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

/// The body of an answer. Its request runs for as long as it exists.
struct RunningBody<B> {
    body: B,
    _running: TaskTrackerToken,
}

impl<B: Body + Unpin> Body for RunningBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn pause(error: &io::Error) {
    warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
