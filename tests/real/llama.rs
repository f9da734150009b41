//! A llama.cpp server with a tiny model of random weights: its text is gibberish, but all else about it is real.

use crate::clients::python;
use crate::lab::{DEADLINE, required};
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::PROCESS_DEADLINE;
use iop_tests::http::{Call, send};
use iop_tests::process::Process;
use std::net::SocketAddr;

/// Slots of every server here.
pub(crate) const SLOTS: u64 = 2;

/// A running server. Dropping it kills it.
pub(crate) struct Llama {
    pub(crate) address: SocketAddr,
    _process: Process,
}

/// What a server says about its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// Requests that have a slot.
    pub(crate) processing: u64,
    /// Requests that wait for one inside the server.
    pub(crate) deferred: u64,
}

impl Llama {
    /// A server of text.
    pub(crate) async fn start() -> Self {
        Self::with(&["--context", "32768"]).await
    }

    /// A server of vectors.
    pub(crate) async fn embedder() -> Self {
        Self::with(&["--embeddings"]).await
    }

    async fn with(options: &[&str]) -> Self {
        let (model, slots) = (required("IOP_TESTS_MODEL"), SLOTS.to_string());
        let program = python("engines/llama_server.py").named("llama").args([model.as_str()]);
        let mut process = program.args(["--slots", &slots]).args(options).start();
        let ready = process.wait_for_ready(PROCESS_DEADLINE).await;
        let address = ready["http"].parse().expect("the server's ready line has its address");
        Self { address, _process: process }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it does now, by its metrics.
    pub(crate) async fn work(&self) -> Work {
        let text = send(self.address, Call::get("/metrics")).await.expect("the server answers").text();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("llamacpp:{name} ")));
            line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
        };
        Work { processing: value("requests_processing"), deferred: value("requests_deferred") }
    }

    /// Waits until so many of its slots are at work.
    pub(crate) async fn wait_for_busy_slots(&self, count: usize) {
        wait_until_async(&format!("{count} busy slots of the server"), DEADLINE, async || {
            let answer = send(self.address, Call::get("/slots")).await.expect("the server answers").json();
            let slots = answer.as_array().expect("slots are a list");
            assert_eq!(slots.len() as u64, SLOTS, "{answer}");
            let busy = slots.iter().filter(|slot| slot["is_processing"] == true).count();
            if busy == count { Ok(()) } else { Err(busy) }
        })
        .await;
    }
}
