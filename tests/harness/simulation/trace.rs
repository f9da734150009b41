//! What happened, in order: a hash of everything, packets included, and the lines that people read. Two runs of one seed
//! have the same hash.

use super::random::extend_fnv;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::Instant;

/// The trace of one run, and what it found wrong. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    shared: Arc<Mutex<State>>,
    started: Instant,
}

#[derive(Debug)]
struct State {
    hash: u64,
    lines: Vec<String>,
    violations: Vec<String>,
    packets: u64,
}

impl Trace {
    pub(super) fn new() -> Self {
        let state = State { hash: 0, lines: Vec::new(), violations: Vec::new(), packets: 0 };
        Self { shared: Arc::new(Mutex::new(state)), started: Instant::now() }
    }

    /// Milliseconds since the run began.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).expect("a run is short")
    }

    /// One line for people.
    pub(super) fn say(&self, what: std::fmt::Arguments<'_>) {
        let mut line = format!("{:>7} ", self.now_ms());
        // Writing into a string cannot fail.
        let _infallible = line.write_fmt(what);
        tracing::info!(target: "simulation", "{line}");
        let mut state = self.lock();
        state.hash = extend_fnv(state.hash, line.as_bytes());
        state.lines.push(line);
    }

    /// Something that must never happen. The run goes on to its end.
    pub(super) fn violation(&self, what: std::fmt::Arguments<'_>) {
        let now = self.now_ms();
        let mut state = self.lock();
        // Not part of the hash: the snapshots in it hold times of the machine's clock.
        state.lines.push(format!("{now:>7} VIOLATION {what}"));
        state.violations.push(format!("at {now} ms: {what}"));
    }

    /// A packet's fate; only the hash knows it.
    pub(super) fn packet(&self, from: u64, to: u64, length: usize, fate: u64) {
        let now = self.started.elapsed().as_nanos() as u64;
        tracing::trace!(target: "packets", at_us = now / 1000, from, to, length, fate);
        let mut state = self.lock();
        for number in [now, from, to, length as u64, fate] {
            state.hash = extend_fnv(state.hash, &number.to_le_bytes());
        }
        state.packets += 1;
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Hash, lines, number of packets.
    pub(super) fn finish(&self) -> (u64, Vec<String>, u64) {
        let mut state = self.lock();
        (state.hash, std::mem::take(&mut state.lines), state.packets)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().expect("nothing panics while it writes a trace")
    }
}
