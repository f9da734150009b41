//! What is soaked: an edge, two nodes with three providers each, scripted engines behind four of them and the built-in
//! echo behind two. One node stays up for the whole run, so that its memory says something; the other comes and goes.

use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::{Engine, Reply, Script};
use iop_tests::http::{Call, send};
use iop_tests::process::Signal;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The node that stays, and the one that is restarted.
pub(crate) const NODES: [&str; 2] = ["steady", "restless"];

/// Words of the echo's answers.
pub(crate) const ECHO_WORDS: usize = 12;

/// Models on the engines with small answers, which share their providers; the model with large ones; the echo's.
pub(crate) const SMALL: [&str; 2] = ["small", "small-too"];
pub(crate) const LARGE: &str = "large";
pub(crate) const ECHO: &str = "say";

/// Each node's providers: engine with small answers, engine with large ones, echo.
const PROVIDERS: [&str; 3] = ["small", "large", "echo"];

/// An engine that says nothing is given up by its node after this long.
const SILENCE_MS: u64 = 2000;

/// The shape of an engine's answers, by its provider.
pub(crate) fn script(large: bool) -> Script {
    let (chunks, chunk_bytes) = if large { (40, 2048) } else { (12, 40) };
    let mut script = Script::stream(chunks, Duration::from_millis(8)).delayed(Duration::from_millis(15));
    script.reply = Reply::OpenAi { chunks, chunk_bytes };
    script
}

/// A running site.
pub(crate) struct Site {
    pub(crate) deployment: Deployment,
    /// By node, then small and large.
    engines: [[Engine; 2]; 2],
    /// Engines that were replaced; kept until their last requests have ended.
    retired: Vec<Engine>,
}

fn engine(large: bool) -> Engine {
    let engine = Engine::start();
    engine.set_script(script(large));
    engine
}

fn plan(engines: &[[Engine; 2]; 2]) -> Plan {
    let mut plan = Plan::new()
        .edge_value("/provider_pool", json!({"max_queue": 24, "queue_timeout_ms": 2000}))
        .edge_value("/quic/idle_timeout_ms", json!(5000));
    for (place, node) in NODES.into_iter().enumerate() {
        for (provider, engine) in PROVIDERS.iter().zip(&engines[place]) {
            plan = plan.provider(node, provider, &engine.endpoint(), 3);
        }
        plan = plan.provider(node, PROVIDERS[2], "", 2).node_value(node, "/keep_alive_ms", json!(1000));
        let providers = &mut plan.edge["nodes"][place]["providers"];
        for provider in 0..2 {
            providers[provider]["first_byte_timeout_ms"] = json!(SILENCE_MS);
            providers[provider]["idle_timeout_ms"] = json!(SILENCE_MS);
        }
        providers[0]["long_context_capacity"] = json!(1);
        providers[0]["context_window_tokens"] = json!(8000);
        providers[2] = json!({"id": PROVIDERS[2], "adapter": "echo", "capacity": 2,
            "words": ECHO_WORDS, "word_interval_ms": 8});
    }
    let at = |provider: usize| NODES.map(|node| (node, PROVIDERS[provider]));
    for model in SMALL {
        plan = plan.model(model, &at(0), &format!("{model}-upstream"));
    }
    plan = plan.model(LARGE, &at(1), "large-upstream").model(ECHO, &at(2), "echo");
    for model in 0..SMALL.len() {
        plan.edge["models"][model]["long_context_threshold_tokens"] = json!(2000);
    }
    plan
}

impl Site {
    pub(crate) async fn start(iop: PathBuf) -> Self {
        let engines = [(); 2].map(|()| [engine(false), engine(true)]);
        let deployment = Deployment::start(iop, plan(&engines)).await;
        Self { deployment, engines, retired: Vec::new() }
    }

    pub(crate) fn engine(&self, node: usize, large: bool) -> &Engine {
        &self.engines[node][usize::from(large)]
    }

    /// Changes the edge's file and refreshes the edge.
    pub(crate) async fn refresh(&mut self, change: impl FnOnce(&mut Value)) {
        self.deployment.rewrite_edge_config(change);
        let refresh = Call::post("/admin/v1/refresh", &json!({}));
        let answer = send(self.deployment.admin, refresh).await.expect("the admin listener answers");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Puts a new engine on another port in an old one's place, and closes those whose requests have ended.
    pub(crate) async fn replace_engine(&mut self, node: usize, large: bool) {
        let fresh = engine(large);
        let endpoint = fresh.endpoint();
        self.retired.push(std::mem::replace(&mut self.engines[node][usize::from(large)], fresh));
        let provider = usize::from(large);
        self.refresh(|edge| edge["nodes"][node]["providers"][provider]["endpoint"] = json!(endpoint)).await;
        // What was dispatched just before the refresh is still on its way for a moment: the newest stay.
        if self.retired.len() > 2 {
            let oldest = self.retired.remove(0);
            oldest.wait_idle(Duration::from_secs(60)).await;
        }
    }

    /// Ends the restless node with this signal and starts it again.
    pub(crate) async fn restart_node(&mut self, signal: Signal) {
        let code = self.deployment.stop_node(NODES[1], signal).await;
        let expected = if signal == Signal::KILL { None } else { Some(0) };
        assert_eq!(code, expected, "exit code of the restless node");
        self.deployment.start_node(NODES[1]).await;
    }

    /// Lines of every process's log that should not be there.
    pub(crate) fn alarms(&mut self) -> Vec<String> {
        let mut lines = self.deployment.edge.stderr();
        lines.extend(NODES.iter().flat_map(|node| self.deployment.node(node).stderr()));
        lines.retain(|line| line.contains(" ERROR ") || line.contains("panicked"));
        lines
    }
}
