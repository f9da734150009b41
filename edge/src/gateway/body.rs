//! Reads a request's body into memory, within limits, and scans it as it comes.

use super::error::GatewayError;
use super::format::Format;
use crate::scan::multipart::MultipartScan;
use crate::scan::{BodyScan, Scanned};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest silence within a request's body. A slow upload is fine, a dead one is not.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Most bytes of a refused request that are read and discarded: some times the default limit of a body.
pub(super) const DISCARDED_BYTES: u64 = 256 << 20;

/// Longest time in which they are.
pub(super) const DISCARD_TIMEOUT: Duration = Duration::from_secs(30);

/// Silence after which the client is taken to wait for its answer.
pub(super) const DISCARD_SILENCE: Duration = Duration::from_millis(500);

/// A whole body.
#[derive(Debug)]
pub(crate) struct Buffered {
    /// Its bytes, as they came.
    pub(crate) chunks: Vec<Bytes>,
    /// What is in it.
    pub(crate) scanned: Scanned,
    /// Its share of the memory for bodies.
    _share: Share,
}

/// Memory for the bodies of all requests together. Cheap to clone; every clone is the same budget.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget {
    used: Arc<AtomicU64>,
}

/// Bytes taken from the budget, given back on drop.
#[derive(Debug)]
struct Share {
    budget: Budget,
    bytes: u64,
}

impl Share {
    /// Takes `bytes` more, if all shares stay within `max`.
    fn grow(&mut self, bytes: u64, max: u64) -> Result<(), GatewayError> {
        let before = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > max { Err(GatewayError::Overloaded { max }) } else { Ok(()) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The scan of a body in its format.
enum Scan {
    Json(Box<BodyScan>),
    Multipart(Box<MultipartScan>),
}

impl Scan {
    fn new(format: &Format) -> Self {
        match format {
            Format::Json => Self::Json(Box::default()),
            Format::Multipart { boundary } => Self::Multipart(Box::new(MultipartScan::new(boundary))),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), GatewayError> {
        match self {
            Self::Json(scan) => Ok(scan.push(bytes)?),
            Self::Multipart(scan) => Ok(scan.push(bytes)?),
        }
    }

    fn finish(self) -> Result<Scanned, GatewayError> {
        match self {
            Self::Json(scan) => Ok(scan.finish()?),
            Self::Multipart(scan) => Ok(scan.finish()?),
        }
    }
}

/// Reads and scans the whole body, within limits in bytes: its own, and that of all bodies together.
pub(crate) async fn read(
    incoming: &mut Incoming,
    format: &Format,
    budget: &Budget,
    (max_body, max_buffered): (u64, u64),
) -> Result<Buffered, GatewayError> {
    if incoming.size_hint().lower() > max_body {
        return Err(GatewayError::TooLarge { max: max_body });
    }
    let mut share = Share { budget: budget.clone(), bytes: 0 };
    let mut scan = Scan::new(format);
    let mut chunks = Vec::new();
    loop {
        let frame = tokio::time::timeout(STALL_TIMEOUT, incoming.frame())
            .await
            .map_err(|_elapsed| GatewayError::BodyStalled(STALL_TIMEOUT))?;
        let Some(frame) = frame else { break };
        let Ok(bytes) = frame.map_err(|_broken| GatewayError::BodyBroken)?.into_data() else { continue };
        share.grow(bytes.len() as u64, max_buffered)?;
        if share.bytes > max_body {
            return Err(GatewayError::TooLarge { max: max_body });
        }
        scan.push(&bytes)?;
        chunks.push(bytes);
    }
    Ok(Buffered { chunks, scanned: scan.finish()?, _share: share })
}

/// Discards what a refused request still sends, within bounds. A connection that is closed while bytes come in is reset,
/// and the client would see that instead of the answer.
pub(crate) async fn discard(headers: &HeaderMap, incoming: &mut Incoming) {
    // Who waits to be told sends nothing when it is refused.
    if incoming.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    let mut left = DISCARDED_BYTES;
    let end = async {
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(DISCARD_SILENCE, incoming.frame()).await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len) as u64);
            if left == 0 {
                return;
            }
        }
    };
    if tokio::time::timeout(DISCARD_TIMEOUT, end).await.is_err() {
        tracing::debug!("a refused request is still being sent");
    }
}
