//! The close of a connection, seen to that it gets out. Who closes, and why, is the caller's.
//!
//! quinn holds the close back while the congestion window is full, and a closed connection counts no acknowledgements any
//! more, so that it would be held back for ever and the peer would wait for its idle timeout (quinn#2785). A connection
//! about to close is therefore freed from congestion control; what it then sends is the close alone.

use crate::codes::CloseCode;
use quinn::Connection;
use quinn::congestion::{Controller, ControllerFactory, CubicConfig};
use quinn_proto::RttEstimator;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Closes the connection. The peer gets the code and the reason, however full the network is.
pub fn close(connection: &Connection, code: CloseCode, reason: &[u8]) {
    if let Ok(closable) = connection.congestion_state().into_any().downcast::<Closable>() {
        closable.closing.store(true, Ordering::Relaxed);
    }
    connection.close(code.wire(), reason);
}

/// Makes controllers that [`close`] knows, around Cubic.
#[derive(Debug, Default)]
pub(crate) struct ClosableConfig {
    inner: Arc<CubicConfig>,
}

impl ControllerFactory for ClosableConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Closable { inner: self.inner.clone().build(now, mtu), closing: Arc::default() })
    }
}

/// A controller that can be told to let everything through.
struct Closable {
    inner: Box<dyn Controller>,
    closing: Arc<AtomicBool>,
}

impl Controller for Closable {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_acked: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        if self.closing.load(Ordering::Relaxed) { u64::MAX } else { self.inner.window() }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), closing: self.closing.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
