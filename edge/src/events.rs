//! What happens, told to whoever listens: bounded, lossy, and never waited for. No decision depends on an event; who has
//! missed some reads the snapshot again.

use serde::Serialize;
use std::sync::Arc;
use tokio::sync::broadcast;

/// Events kept for a subscriber that is behind; older ones are lost to it.
const CAPACITY: usize = 1024;

/// One event. Its name and fields are part of `CONTRACT-admin.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    NodeConnected {
        node: Arc<str>,
        generation: u64,
        address: String,
    },
    NodeDisconnected {
        node: Arc<str>,
        generation: u64,
        reason: String,
    },
    RequestQueued {
        ticket: u64,
    },
    RequestRefused {
        ticket: u64,
        reason: &'static str,
    },
    RequestCancelled {
        ticket: u64,
    },
    LeaseAcquired {
        lease: u64,
        ticket: u64,
        model: Arc<str>,
        node: Arc<str>,
        provider: Arc<str>,
        long: bool,
    },
    LeaseReleased {
        lease: u64,
    },
    ConfigApplied {
        config_revision: u64,
    },
    ConfigRefused {
        errors: usize,
    },
    /// For one subscriber alone, in place of the events that it was too slow for.
    Missed {
        missed: u64,
    },
}

impl Event {
    /// The name, as it stands in the event's own `event` field.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NodeConnected { .. } => "node_connected",
            Self::NodeDisconnected { .. } => "node_disconnected",
            Self::RequestQueued { .. } => "request_queued",
            Self::RequestRefused { .. } => "request_refused",
            Self::RequestCancelled { .. } => "request_cancelled",
            Self::LeaseAcquired { .. } => "lease_acquired",
            Self::LeaseReleased { .. } => "lease_released",
            Self::ConfigApplied { .. } => "config_applied",
            Self::ConfigRefused { .. } => "config_refused",
            Self::Missed { .. } => "missed",
        }
    }
}

/// The fan-out. Cheap to clone; every clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(CAPACITY) }
    }
}

impl Events {
    /// Tells everybody who listens; makes the event, if there is one, only if somebody does.
    pub(crate) fn tell<E: Into<Option<Event>>>(&self, event: impl FnOnce() -> E) {
        if self.sender.receiver_count() > 0
            && let Some(event) = event().into()
        {
            let _nobody_listens_any_more = self.sender.send(event);
        }
    }

    /// Everything from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}
