//! HTTP connections: accepts them, serves them with a service, ends them at shutdown. What is answered is the service's.

mod connection;
mod pace;
mod paced_body;
mod places;
mod sent;
mod tls;

use crate::listeners::Accept;
use bytes::Bytes;
use connection::Connection;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::server::graceful::GracefulShutdown;
use paced_body::BodyError;
use places::Places;
use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{debug, warn};

pub(crate) use connection::prepare;
#[cfg(test)]
pub(crate) use connection::{HANDSHAKE_TIMEOUT, HEAD_BYTES, HEADER_TIMEOUT, UNSENT_BYTES};
pub(crate) use pace::{ClientPace, StallLimit};
#[cfg(test)]
pub(crate) use paced_body::PIECE_BYTES;
pub(crate) use places::Running;
#[cfg(test)]
pub(crate) use places::SAID_EVERY;
pub use tls::HttpTlsError;
#[cfg(test)]
pub(crate) use tls::LOOK_INTERVAL;
pub(crate) use tls::Tls;

/// Longest time that running requests get to end at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after the system refused a connection for want of something, mostly file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    /// Most connections at a time; beyond it, one that is of no use leaves for each new one, or the new ones wait.
    pub(crate) max_connections: NonZeroUsize,
    /// Most requests at a time on one HTTP/2 connection.
    pub(crate) max_streams: u32,
}

/// Serves connections until `shutdown`, then lets running requests end within a bound.
pub(crate) async fn serve<S, F, B>(door: Door, shutdown: CancellationToken, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BodyError>,
{
    let Door { mut listener, tls, stall_limit, max_connections, max_streams } = door;
    let places = Places::new(max_connections);
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
        // Who has to wait for a place keeps those behind it waiting in the system.
        let next = async {
            let stream = poll_fn(|cx| listener.poll_accept(cx)).await?;
            Ok((stream, places.take().await))
        };
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            () = &mut certificates => break,
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let connection = Connection {
                    pace: ClientPace::default(),
                    stall_limit: stall_limit.clone(),
                    graceful: graceful.watcher(),
                    requests: place.requests(),
                    max_streams,
                };
                tokio::spawn(connection.run(place, stream, tls.clone(), service.clone()));
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
