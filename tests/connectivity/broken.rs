//! Answers that their node breaks off while its connection lives: what the client sees is the same for every reason, a
//! panic of the node's task included (node/tests/execution/order.rs shows that one's reset).

use crate::clients::{Client, begun, call};
use crate::lab::{IOP, among_others, usual, wait_at_rest};
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script, Then};

#[tokio::test]
async fn an_answer_that_its_node_resets_is_broken_for_the_client_and_costs_nobody_else_anything() {
    let _machine = among_others().await;
    let engine = Engine::start();
    let deployment = Deployment::start(IOP, usual(&engine, 1)).await;
    for stream in [true, false] {
        // The break comes when the client has the beginning: a reset may overtake what is still on its way.
        engine.queue_scripts([Script::answer().cut(if stream { 2 } else { 1 }, Then::Hold)]);
        let (mut answer, _) = begun(deployment.http, call(&format!("broken {stream}"), stream), "{").await;
        engine.crash();
        if stream {
            let (events, _) = answer.events().await;
            let last = &events.last().expect("an error event").0;
            assert_eq!(last.json()["error"]["code"], "provider_error", "{events:?}");
            assert!(events.iter().all(|(event, _)| event.data != "[DONE]"), "{events:?}");
        } else {
            let (_, end) = answer.rest().await;
            assert!(end.is_err(), "a plain answer is cut, so that nobody takes it for complete");
        }
        engine.listen_again();
        let (answer, _) = Client::send(deployment.http, call(&format!("next {stream}"), true)).answer().await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().ends_with("data: [DONE]\n\n"), "{answer:?}");
    }
    let snapshot = deployment.snapshot().await;
    assert_eq!(snapshot["nodes"][0]["generation"], 1, "the connection lives on");
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}
