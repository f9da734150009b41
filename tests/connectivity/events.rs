//! A subscriber of the admin listener's events, with the moment at which each arrived.

use iop_tests::deadline::wait_until;
use iop_tests::http::{Call, EventParser, open};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::AbortHandle;

use crate::lab::DEADLINE;

/// Everything since the subscription.
pub(crate) struct Events {
    seen: Arc<Mutex<Vec<(Value, Instant)>>>,
    reader: AbortHandle,
}

impl Events {
    pub(crate) async fn subscribe(admin: SocketAddr) -> Self {
        let mut stream =
            open(admin, Call::get("/admin/v1/events")).await.expect("the admin listener answers");
        assert_eq!(stream.status, 200);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&seen);
        let reader = tokio::spawn(async move {
            let mut parser = EventParser::default();
            while let Ok(Some(piece)) = stream.next().await {
                let events = parser.push(&piece.bytes).into_iter().map(|event| (event.json(), piece.at));
                writer.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
            }
        });
        Self { seen, reader: reader.abort_handle() }
    }

    /// When events of this name arrived.
    pub(crate) fn times(&self, name: &str) -> Vec<Instant> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|(event, _)| event["event"] == name).map(|(_, at)| *at).collect()
    }

    /// Waits for that many events of this name and returns when the last of them arrived.
    pub(crate) async fn wait(&self, name: &str, count: usize) -> Instant {
        wait_until(&format!("{count} events {name}"), DEADLINE, || {
            let times = self.times(name);
            if times.len() >= count { Ok(times[count - 1]) } else { Err(times.len()) }
        })
        .await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
