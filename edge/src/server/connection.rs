//! One client's connection: its socket, TLS, both versions of HTTP. What is answered is the service's.

use super::pace::{ClientPace, PacedIo, StallLimit};
use super::paced_body::{BodyError, PacedBody};
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
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tracing::debug;

/// Longest time for a request's headers to come, so that silent connections do not pile up.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest head of a request, in bytes.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Most requests at a time on one HTTP/2 connection. Beyond any client's need: who has to wait shall wait in the one queue.
pub(crate) const STREAMS: u32 = 1024;

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
}

impl Connection {
    pub(super) async fn run<S, F, B>(self, stream: Box<dyn ClientStream>, tls: Option<Tls>, service: S)
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
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD_BYTES as u32);
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
