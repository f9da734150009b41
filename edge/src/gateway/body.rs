//! Reads a request's body into memory, within limits, and scans it as it comes.

use super::error::GatewayError;
use crate::scan::{BodyScan, Scanned};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest silence within a request's body. A slow upload is fine, a dead one is not.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A whole JSON body.
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

/// Reads and scans the whole body: at most `max_body` bytes of it, `max_buffered` with all others.
pub(crate) async fn read(
    mut incoming: Incoming,
    budget: &Budget,
    max_body: u64,
    max_buffered: u64,
) -> Result<Buffered, GatewayError> {
    if incoming.size_hint().lower() > max_body {
        return Err(GatewayError::TooLarge { max: max_body });
    }
    let mut share = Share { budget: budget.clone(), bytes: 0 };
    let mut scan = BodyScan::new();
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
