//! What the tests of this program share: the usual deployments, and what must hold when a test is over.

use crate::llama::Llama;
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::Engine;
use std::time::Duration;

/// The built binary.
pub(crate) const IOP: &str = env!("CARGO_BIN_EXE_iop");
/// Longest wait for anything that takes milliseconds. Generous: the whole suite shares two cores.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// What clients call the model of the scripted engine, which calls it [`UPSTREAM`].
pub(crate) const MODEL: &str = "ornith:35b";
/// What the scripted engine calls its model.
pub(crate) const UPSTREAM: &str = "scripted";

/// What tests/run tells by an environment variable.
pub(crate) fn required(name: &str) -> String {
    match std::env::var(name) {
        Ok(value) => value,
        Err(_) => panic!("{name} is not set: run these tests with tests/run, which installs what they need"),
    }
}

pub(crate) async fn deploy(plan: Plan) -> Deployment {
    Deployment::start(IOP, plan).await
}

/// One node with a provider of capacity 1 in front of the engine.
pub(crate) fn scripted(engine: &Engine) -> Plan {
    Plan::new().provider("gpu-a", "engine", &engine.endpoint(), 1).model(
        MODEL,
        &[("gpu-a", "engine")],
        UPSTREAM,
    )
}

/// One node with two llama.cpp servers of two slots each: the models `tiny` and `tiny-embedding`.
pub(crate) fn llama(text: &Llama, embedder: &Llama) -> Plan {
    Plan::new()
        .provider("gpu-a", "llama", &text.endpoint(), 2)
        .provider("gpu-a", "embedder", &embedder.endpoint(), 2)
        .model("tiny", &[("gpu-a", "llama")], "tiny")
        .model("tiny-embedding", &[("gpu-a", "embedder")], "tiny")
}

/// Passes when this many requests reached the engine, one at a time, under its own name for the model and without the
/// client's key, and every lease is returned.
pub(crate) async fn assert_tunnelled(engine: &Engine, iop: &Deployment, requests: usize) {
    engine.wait_idle(DEADLINE).await;
    engine.look(|log| {
        assert_eq!(log.scripted().count(), requests, "{log:?}");
        for request in log.scripted() {
            assert_eq!(request.json()["model"], UPSTREAM, "the upstream model's name: {request:?}");
            for name in ["authorization", "x-api-key"] {
                assert_eq!(request.header(name), "", "{name} stays at the edge: {request:?}");
            }
        }
    });
    assert_eq!(engine.peak(), 1, "capacity 1");
    wait_for_no_lease(iop).await;
}

pub(crate) async fn wait_for_no_lease(iop: &Deployment) {
    wait_until_async("every lease returned", DEADLINE, async || {
        let snapshot = iop.snapshot().await;
        let idle = snapshot["leases"]["active"] == 0 && snapshot["queue"]["length"] == 0;
        if idle { Ok(()) } else { Err(snapshot) }
    })
    .await;
}

/// Waits until this many requests wait in the edge's queue.
pub(crate) async fn wait_for_queue(iop: &Deployment, length: u64) {
    wait_until_async(&format!("{length} requests queued"), DEADLINE, async || {
        let queue = iop.snapshot().await["queue"].take();
        if queue["length"] == length { Ok(()) } else { Err(queue) }
    })
    .await;
}
