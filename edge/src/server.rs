//! HTTP connections: accepts them, serves them with a service, ends them at shutdown. What is answered is the service's.

use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{debug, warn};

/// Longest time for a request's headers to come, so that silent connections do not pile up.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time that running requests get to end at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after the system refused a connection for want of something, mostly file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Largest head of a request, in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// Longest time that connections get to close at shutdown when no request runs any more. What is left of an answer is then
/// in buffers, and who has sent half a request's head is not waited for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves connections until `shutdown`, then lets running requests end within a bound.
pub(crate) async fn serve<S, F, B>(listener: TcpListener, shutdown: CancellationToken, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let graceful = GracefulShutdown::new();
    let running = TaskTracker::new();
    let service = {
        let running = running.clone();
        move |request| {
            let (answer, token) = (service(request), running.token());
            async move { answer.await.map(|body| RunningBody { body, _running: token }) }
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        match accepted {
            Ok((stream, _address)) => spawn(&graceful, stream, service.clone()),
            Err(error) => pause(&error).await,
        }
    }
    drop(listener);
    running.close();
    let mut closed = pin!(graceful.shutdown());
    tokio::select! {
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

fn spawn<S, F, B>(graceful: &GracefulShutdown, stream: TcpStream, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "a connection was lost at once");
    }
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEAD_BYTES * 2);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(HEAD_BYTES as u32);
    let infallible = service_fn(move |request| {
        let answer = service(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), infallible).into_owned();
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = watched.await {
            debug!(%error, "a client's connection ended badly");
        }
    });
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
