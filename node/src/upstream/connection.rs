//! One HTTP/1.1 connection to an inference server. Nobody but its owner polls it, so that dropping it closes the socket
//! there and then: no task keeps it open behind the owner's back.

use super::body::RequestBody;
use super::connect::ByteStream;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// An open connection with at most one request on it.
pub(crate) struct Connection {
    sender: http1::SendRequest<RequestBody>,
    /// HTTP's own state and the stream. `None` once it has ended by itself.
    driver: Option<http1::Connection<TokioIo<Watched>, RequestBody>>,
    heard: Arc<AtomicBool>,
    reused: bool,
}

impl Connection {
    pub(crate) async fn open(stream: Box<dyn ByteStream>) -> hyper::Result<Self> {
        let heard = Arc::new(AtomicBool::new(false));
        let stream = Watched { stream, heard: Arc::clone(&heard) };
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: Some(driver), heard, reused: false })
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(&mut self, request: Request<RequestBody>) -> hyper::Result<Response<Incoming>> {
        self.heard.store(false, Ordering::Relaxed);
        let mut response = pin!(self.sender.send_request(request));
        std::future::poll_fn(|cx| {
            poll_driver(&mut self.driver, cx);
            response.as_mut().poll(cx)
        })
        .await
    }

    /// Reads, writes and notices the server's end of the connection, as far as goes without waiting.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        poll_driver(&mut self.driver, cx);
    }

    /// Whether the next request can be sent; only meaningful after [`poll`](Self::poll).
    pub(crate) fn is_idle(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }

    /// The connection has served a request before the one to come.
    pub(crate) fn mark_reused(&mut self) {
        self.reused = true;
    }

    /// A failure without a byte of answer on a connection that has served before: the server had most likely closed it
    /// before it saw the request.
    pub(crate) fn was_stale(&self) -> bool {
        self.reused && !self.heard.load(Ordering::Relaxed)
    }
}

fn poll_driver(driver: &mut Option<http1::Connection<TokioIo<Watched>, RequestBody>>, cx: &mut Context<'_>) {
    if let Some(running) = driver
        && Pin::new(running).poll(cx).is_ready()
    {
        // The request and the answer's body hear of it by the drop.
        *driver = None;
    }
}

/// A stream that remembers whether anything was read from it.
struct Watched {
    stream: Box<dyn ByteStream>,
    heard: Arc<AtomicBool>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.heard.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
