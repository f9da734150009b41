//! What the tests of this program share: the usual deployment, requests that are known to wait, and snapshots whose sums
//! are checked whenever one is taken.

use iop_tests::deadline::{wait_until, wait_until_async};
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::Engine;
use iop_tests::http::{Answer, Call, send};
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The built binary.
pub(crate) const IOP: &str = env!("CARGO_BIN_EXE_iop");

/// Longest wait for anything that takes milliseconds, or a few looks at a file. Generous: the suite shares two cores.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Two models that every usual deployment serves from the same provider.
pub(crate) const MODELS: [&str; 2] = ["ornith:35b", "ornith-fast"];

/// The node and the provider of the usual deployment.
pub(crate) const NODE: &str = "gpu-a";
pub(crate) const PROVIDER: &str = "engine";

/// A deployment under test.
pub(crate) struct Lab {
    iop: Deployment,
}

/// A request on its way. Dropping it does not end it; see [`Sent::give_up`].
pub(crate) struct Sent {
    task: JoinHandle<Result<Answer, String>>,
}

/// One node with one provider at the engine, and both models on it.
pub(crate) fn plan(engine: &Engine, capacity: u32) -> Plan {
    let plan = Plan::new().provider(NODE, PROVIDER, &engine.endpoint(), capacity);
    MODELS.iter().fold(plan, |plan, model| plan.model(model, &[(NODE, PROVIDER)], "upstream"))
}

/// A chat request that can be told from others by `text`.
pub(crate) fn chat(model: &str, text: &str) -> Call {
    Call::post(
        "/v1/chat/completions",
        &json!({"model": model, "messages": [{"role": "user", "content": text}]}),
    )
}

/// The text by which requests of [`chat`] are told from others, in the order in which the engine got them.
pub(crate) fn texts(engine: &Engine) -> Vec<String> {
    let text = |body: Value| body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
    engine.look(|log| log.scripted().map(|request| text(request.json())).collect())
}

/// `error.code` of an answer.
pub(crate) fn code(answer: &Answer) -> String {
    answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// A provider in a snapshot.
pub(crate) fn provider<'a>(snapshot: &'a Value, node: &str, provider: &str) -> &'a Value {
    let by_id =
        |list: &'a Value, id: &str| list.as_array().into_iter().flatten().find(|entry| entry["id"] == id);
    by_id(&snapshot["nodes"], node)
        .and_then(|node| by_id(&node["providers"], provider))
        .unwrap_or(&Value::Null)
}

impl Lab {
    /// Starts edge and nodes, and waits until every provider is available or refused.
    pub(crate) async fn start(plan: Plan) -> Self {
        let lab = Self { iop: Deployment::start(IOP, plan).await };
        let is_settled =
            |provider: &Value| provider["effective_capacity"] != 0 || provider["health"] != "online";
        lab.wait_for("every provider confirmed", |snapshot| {
            let nodes = snapshot["nodes"].as_array().into_iter().flatten();
            nodes
                .flat_map(|node| node["providers"].as_array().into_iter().flatten())
                .all(|provider| is_settled(provider) || provider["enabled"] == false)
        })
        .await;
        lab
    }

    /// Starts the edge alone.
    pub(crate) async fn start_edge(plan: Plan) -> Self {
        Self { iop: Deployment::start_edge(IOP, plan).await }
    }

    /// The snapshot. Whenever it is taken, every lease is accounted for.
    pub(crate) async fn snapshot(&self) -> Value {
        let snapshot = self.iop.snapshot().await;
        let total = |name: &str| snapshot["leases"][name].as_u64().expect("a count");
        let accounted = total("released_total") + total("fenced_total") + total("active");
        assert_eq!(total("acquired_total"), accounted, "{snapshot:#}");
        snapshot
    }

    /// Waits until a snapshot satisfies `condition`, and returns that one.
    pub(crate) async fn wait_for(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        wait_until_async(what, DEADLINE, async || {
            let snapshot = self.snapshot().await;
            if condition(&snapshot) { Ok(snapshot) } else { Err(snapshot) }
        })
        .await
    }

    /// Waits until this many requests are in the queue.
    pub(crate) async fn wait_for_queue(&self, length: u64) -> Value {
        self.wait_for(&format!("{length} requests in the queue"), |snapshot| {
            snapshot["queue"]["length"] == length
        })
        .await
    }

    /// Waits until nothing runs or waits, and every counter says so.
    pub(crate) async fn wait_for_rest(&self) -> Value {
        self.wait_for("every counter at 0", |snapshot| {
            let nodes = snapshot["nodes"].as_array().into_iter().flatten();
            let mut providers = nodes.flat_map(|node| node["providers"].as_array().into_iter().flatten());
            let counters = ["in_flight", "long_in_flight", "queued", "long_queued"];
            snapshot["leases"]["active"] == 0
                && snapshot["queue"]["length"] == 0
                && providers.all(|provider| counters.iter().all(|counter| provider[counter] == 0))
        })
        .await
    }

    /// Sends a request on a connection of its own.
    pub(crate) fn send(&self, call: Call) -> Sent {
        let http = self.iop.http;
        Sent {
            task: tokio::spawn(async move { send(http, call).await.map_err(|error| format!("{error:#}")) }),
        }
    }

    /// Sends a request and waits until it is in the queue.
    pub(crate) async fn enqueue(&self, call: Call) -> Sent {
        let before = self.snapshot().await["queue"]["length"].as_u64().expect("a length");
        let sent = self.send(call);
        self.wait_for_queue(before + 1).await;
        sent
    }

    /// Sends a request and waits until the engine holds it.
    pub(crate) async fn occupy(&self, engine: &Engine, call: Call) -> Sent {
        let before = engine.look(|log| log.scripted().count());
        let sent = self.send(call);
        engine.wait_received(before + 1, DEADLINE).await;
        // Those that are given up leave the gate a little later than they leave the edge.
        wait_until("everything in progress held", DEADLINE, || {
            let (held, in_progress) = (engine.held(), engine.in_progress());
            if held == in_progress { Ok(()) } else { Err((held, in_progress)) }
        })
        .await;
        sent
    }

    /// `POST /admin/v1/refresh`.
    pub(crate) async fn refresh(&self, query: &str) -> Answer {
        let call = Call::new("POST".parse().expect("a method"), &format!("/admin/v1/refresh{query}"));
        self.iop.ask_admin(call).await
    }

    /// Rewrites the edge's file and puts it in force. Returns the report.
    pub(crate) async fn reconfigure(&mut self, change: impl FnOnce(&mut Value)) -> Value {
        self.iop.rewrite_edge_config(change);
        let answer = self.refresh("").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

impl Sent {
    /// The answer.
    pub(crate) async fn answer(self) -> Answer {
        let answered = tokio::time::timeout(DEADLINE, self.task).await.expect("answered in time");
        answered.expect("the task of a request does not panic").expect("an answer")
    }

    /// The client goes away: its connection is closed.
    pub(crate) fn give_up(self) {
        self.task.abort();
    }

    /// Whether nothing has come of it yet.
    pub(crate) fn is_pending(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Deref for Lab {
    type Target = Deployment;

    fn deref(&self) -> &Deployment {
        &self.iop
    }
}

impl DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Deployment {
        &mut self.iop
    }
}
