//! Notices that everything written to a connection is with the system. What was written, and whose it was, is not known here.

use super::places::Requests;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that tells its place when nothing waits to be sent.
pub(super) struct SentIo<T> {
    io: T,
    requests: Requests,
}

impl<T> SentIo<T> {
    pub(super) fn new(io: T, requests: Requests) -> Self {
        Self { io, requests }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for SentIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// HTTP asks for it when all that it had was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.requests.are_sent();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for SentIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::Connection;
    use super::super::pace::{ClientPace, StallLimit};
    use super::super::places::{Places, Running};
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Incoming;
    use hyper_util::server::graceful::GracefulShutdown;
    use std::num::NonZeroUsize;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Of one answer, and far more than the pipe to its client takes.
    const BYTES: usize = 100_000;

    async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
        request.extensions().get::<Running>().expect("every request has one").keep();
        Response::new(Full::from(vec![b'x'; BYTES]))
    }

    #[tokio::test]
    async fn an_answer_whose_body_has_ended_keeps_its_place_until_its_client_has_taken_all_of_it() {
        let places = Places::new(NonZeroUsize::MIN);
        let place = places.take().await;
        let graceful = GracefulShutdown::new();
        let connection = Connection {
            pace: ClientPace::default(),
            stall_limit: StallLimit::new(|| Duration::from_secs(60)),
            graceful: graceful.watcher(),
            requests: place.requests(),
            max_streams: 1,
        };
        let (mut client, server) = tokio::io::duplex(1000);
        tokio::spawn(connection.run(place, Box::new(server), None, answer));
        client.write_all(b"GET / HTTP/1.1\r\nhost: edge\r\n\r\n").await.expect("sent");
        // The body is a single frame: with the first byte of the answer it has ended.
        let first = client.read_u8().await.expect("an answer");
        let newcomer = tokio::spawn(async move { places.take().await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!newcomer.is_finished());

        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("an orderly end");
        assert!(first == b'H' && rest.iter().rev().take_while(|byte| **byte == b'x').count() == BYTES);
        newcomer.await.expect("it does not panic");
    }
}
