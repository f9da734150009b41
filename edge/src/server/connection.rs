//! One client's connection: its socket, TLS, both versions of HTTP. What is answered is the service's.

use super::pace::{ClientPace, PacedIo, StallLimit};
use super::paced_body::{BodyError, PacedBody};
use super::places::{Place, Requests, Running};
use super::sent::SentIo;
use super::tls::Tls;
use crate::listeners::ClientStream;
use bytes::Bytes;
use http::{Request, Response, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use socket2::{SockRef, TcpKeepalive};
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tracing::debug;

/// Longest time for a request's headers to come, so that silent connections do not pile up.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest head of a request, in bytes.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Longest time for a TLS handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Silence after which a client's machine is asked whether it is still there, and how often it is asked again.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(15));

/// Bytes that may wait in the system for a client, beyond those on their way: so much more a client that stopped reading is
/// given, and so much a slow one must take within the stall limit to count as reading.
pub(crate) const UNSENT_BYTES: u32 = 128 << 10;

/// One client's connection.
pub(super) struct Connection {
    pub(super) pace: ClientPace,
    pub(super) stall_limit: StallLimit,
    pub(super) graceful: Watcher,
    /// Where its requests are counted.
    pub(super) requests: Requests,
    /// Most requests at a time over HTTP/2.
    pub(super) max_streams: u32,
}

impl Connection {
    /// Serves it until it ends, or its place is needed.
    pub(super) async fn run<S, F, B>(
        self,
        place: Place,
        stream: Box<dyn ClientStream>,
        tls: Option<Tls>,
        service: S,
    ) where
        S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
    {
        tokio::select! {
            biased;
            // First, so that what has just been answered is written.
            () = self.secure(stream, tls, service) => {}
            () = place.is_needed() => debug!("a connection left its place to a newcomer"),
        }
    }

    async fn secure<S, F, B>(self, stream: Box<dyn ClientStream>, tls: Option<Tls>, service: S)
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
        let Self { pace, stall_limit, graceful, requests, max_streams } = self;
        let io = SentIo::new(io, requests.clone());
        let builder = builder(max_streams);
        let has_begun = Arc::new(AtomicBool::new(false));
        let begun = has_begun.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            begun.store(true, Ordering::Relaxed);
            let running = requests.begin();
            request.extensions_mut().insert(running.clone());
            let pace = pace.of_next_request();
            request.extensions_mut().insert(pace.clone());
            // Over HTTP/1.1 the connection is the stream, and its socket says everything.
            let is_stream = request.version() == Version::HTTP_2;
            let (answer, limit) = (service(request), stall_limit.clone());
            async move {
                let response = answer.await.map(|body| {
                    if body.size_hint().exact().is_none() {
                        running.is_endless();
                    }
                    let sent = if is_stream {
                        Sent::Stream(PacedBody::new(body, limit, pace))
                    } else {
                        Sent::Connection(body)
                    };
                    Answer { sent, _running: running }
                });
                Ok::<_, Infallible>(response)
            }
        });
        let connection = builder.serve_connection(TokioIo::new(io), service).into_owned();
        let mut connection = pin!(graceful.watch(connection));
        tokio::select! {
            biased;
            ended = &mut connection => if let Err(error) = ended {
                debug!(%error, "a client's connection ended badly");
            },
            () = no_request(&has_begun) => debug!("a client's first request did not come in time"),
        }
    }
}

/// Both versions of HTTP, with their bounds.
fn builder(max_streams: u32) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEAD_BYTES * 2);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(max_streams)
        .max_header_list_size(HEAD_BYTES as u32);
    builder
}

/// Ends when the first request has not come in time. The timeout of HTTP/1.1 begins only when it is known that it is
/// HTTP/1.1, and HTTP/2 has none.
async fn no_request(has_begun: &AtomicBool) {
    tokio::time::sleep(HEADER_TIMEOUT).await;
    if has_begun.load(Ordering::Relaxed) {
        std::future::pending().await
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

/// The body of an answer.
struct Answer<B> {
    sent: Sent<B>,
    /// Its request runs for as long as it exists.
    _running: Running,
}

/// A body by what it is sent over.
enum Sent<B> {
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
        match &mut self.get_mut().sent {
            Sent::Connection(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Sent::Stream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.sent {
            Sent::Connection(body) => body.is_end_stream(),
            Sent::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.sent {
            Sent::Connection(body) => body.size_hint(),
            Sent::Stream(body) => body.size_hint(),
        }
    }
}
