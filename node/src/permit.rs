//! A place inside a gate, held as a handle: its drop leaves the gate. The gate's rules are not here.

use crate::gate::{Gate, GateFull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A gate that runs share. It outlives its provider's settings: as long as a permit exists, so does the count.
#[derive(Debug, Clone)]
pub(crate) struct SharedGate {
    gate: Arc<Mutex<Gate>>,
}

/// A gate that no settings use any more; gone with its last permit.
#[derive(Debug)]
pub(crate) struct RetiredGate {
    gate: Weak<Mutex<Gate>>,
}

/// One run's place. Dropped when the run holds nothing of the provider any more, and before its reply ends.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: SharedGate,
}

impl SharedGate {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { gate: Arc::new(Mutex::new(Gate::new(capacity))) }
    }

    pub(crate) fn enter(&self) -> Result<Permit, GateFull> {
        self.lock().try_enter()?;
        Ok(Permit { gate: self.clone() })
    }

    pub(crate) fn set_capacity(&self, capacity: u32) {
        self.lock().set_capacity(capacity);
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.lock().capacity()
    }

    pub(crate) fn retire(&self) -> RetiredGate {
        RetiredGate { gate: Arc::downgrade(&self.gate) }
    }

    /// A panic elsewhere does not make the two numbers wrong.
    fn lock(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RetiredGate {
    /// The gate, if runs still hold permits of it.
    pub(crate) fn revive(&self) -> Option<SharedGate> {
        self.gate.upgrade().map(|gate| SharedGate { gate })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gate.strong_count() == 0
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.lock().leave();
    }
}
