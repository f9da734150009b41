//! Events as server-sent events. A reader that is too slow is told how many it missed, and reads the snapshot again.

use super::{Admin, Body};
use crate::events::Event;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use hyper::body::Frame;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Silence after which a comment shows that the stream lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Streams at a time. Each holds a connection for as long as its reader likes; so many leave most connections to others.
pub(super) const MAX_SUBSCRIBERS: usize = 16;

/// Every stream that there may be is there already.
#[derive(Debug, thiserror::Error)]
#[error("{MAX_SUBSCRIBERS} streams of events are open, and there may be no more: close one of them")]
pub(super) struct TooMany;

/// The places of the streams. Cheap to clone; every clone is the same.
#[derive(Debug, Clone)]
pub(crate) struct Subscribers(Arc<Semaphore>);

impl Default for Subscribers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_SUBSCRIBERS)))
    }
}

impl Subscribers {
    /// A place for another stream. Its drop gives it back.
    pub(super) fn join(&self) -> Result<OwnedSemaphorePermit, TooMany> {
        self.0.clone().try_acquire_owned().map_err(|_full| TooMany)
    }
}

type Next = Pin<Box<dyn Future<Output = (Receiver<Event>, Option<Bytes>)> + Send>>;

/// The body of a stream of events.
pub(super) struct EventStream {
    /// `None` once it has ended.
    next: Option<Next>,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl EventStream {
    /// The response; events from now on.
    pub(super) fn response(admin: &Admin, place: OwnedSemaphorePermit) -> Response<Body> {
        let stop = admin.stop.clone();
        let next: Next = Box::pin(next(admin.events.subscribe(), stop.clone()));
        let mut response = Response::new(Self { next: Some(next), stop, _place: place }.boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}

/// The next bytes of the stream; `None` at its end.
async fn next(mut events: Receiver<Event>, stop: CancellationToken) -> (Receiver<Event>, Option<Bytes>) {
    let bytes = tokio::select! {
        biased;
        event = events.recv() => match event {
            Ok(event) => Some(rendered(&event)),
            Err(RecvError::Lagged(missed)) => Some(rendered(&Event::Missed { missed })),
            Err(RecvError::Closed) => None,
        },
        () = tokio::time::sleep(KEEP_ALIVE) => Some(Bytes::from_static(b": still here\n\n")),
        () = stop.cancelled() => None,
    };
    (events, bytes)
}

fn rendered(event: &Event) -> Bytes {
    let data = serde_json::to_string(event).expect("an event of texts and numbers is always JSON");
    format!("event: {}\ndata: {data}\n\n", event.name()).into()
}

impl hyper::body::Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(future) = &mut self.next else { return Poll::Ready(None) };
        let (events, bytes) = std::task::ready!(future.as_mut().poll(cx));
        self.next = bytes.is_some().then(|| Box::pin(next(events, self.stop.clone())) as Next);
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
