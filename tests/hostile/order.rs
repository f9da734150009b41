//! Runs and control messages are streams of their own, in no order with each other. Here a node looks at what it is told
//! while runs are under way, and is told nothing that would make it refuse one of them.

use crate::fake_node::{Node, Run};
use crate::site::{BAD, DEADLINE, HOSTILE, Site};
use iop_tests::http::{Call, send};
use iop_transport::wire::{self, EdgeMessage, RUN_HEAD_BYTES, RunReply};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::time::timeout;

impl Node {
    /// The capacities that the edge tells next, by provider; they are confirmed.
    async fn told(&mut self) -> BTreeMap<String, u32> {
        let message = timeout(DEADLINE, self.recv.recv()).await.expect("settings in time");
        let Ok(Some(EdgeMessage::Apply(apply))) = message else { panic!("not settings: {message:?}") };
        self.applied(apply.revision).await;
        apply.providers.into_iter().map(|provider| (provider.id, provider.capacity)).collect()
    }
}

impl Run {
    /// Answers with nothing, completely.
    async fn finish(mut self) {
        let head = RunReply::Response { status: 200, headers: Vec::new() };
        let head = wire::encode(&[], &head, RUN_HEAD_BYTES).expect("a small head");
        self.send.write_all(&head).await.expect("the run stands");
        self.send.finish().expect("it is open");
    }
}

fn capacities(of: &[(&str, u32)]) -> BTreeMap<String, u32> {
    of.iter().map(|(id, capacity)| ((*id).to_owned(), *capacity)).collect()
}

// [refresh-consistency] [tunnel-guard]
#[tokio::test]
async fn a_node_is_told_a_lower_capacity_when_the_leases_over_it_are_back_and_not_before() {
    let mut site = Site::start().await;
    let mut node = Node::of(&site).await;
    let (mut clients, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        clients.push(tokio::spawn(send(site.deployment.http, Call::chat(BAD, false))));
        runs.push(Run::next(&node.connection).await);
    }
    site.refresh(|edge| edge["nodes"][1]["providers"][0]["capacity"] = json!(1)).await;
    assert_eq!(node.told().await["one"], 3, "three were granted: one of them may still be on its way");
    assert_eq!(site.node(HOSTILE).await["providers"][0]["effective_capacity"], 1, "admission knows at once");
    for run in runs.drain(1..) {
        run.finish().await;
    }
    assert_eq!(node.told().await["one"], 1, "what is over has come back");

    site.refresh(|edge| {
        edge["nodes"][1]["providers"].as_array_mut().expect("providers").remove(0);
        edge["models"].as_array_mut().expect("models").retain(|model| model["id"] != BAD);
    })
    .await;
    let slots = crate::site::SLOTS;
    assert_eq!(
        node.told().await,
        capacities(&[("one", 1), ("two", slots)]),
        "it was taken out with a run left"
    );
    runs.remove(0).finish().await;
    assert_eq!(node.told().await, capacities(&[("two", slots)]), "and goes with its last run");
    for client in clients {
        let answer = client.await.expect("the client ends").expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    drop(node);
    site.assert_unharmed().await;
}
