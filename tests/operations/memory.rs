//! The memory that bodies of waiting requests take.

use crate::lab::{Lab, MODELS, chat, code, plan};
use iop_tests::engine::Engine;
use iop_tests::http::Call;
use serde_json::json;

/// Bytes of text in each request.
const TEXT_BYTES: usize = 30_000;

fn large() -> Call {
    chat(MODELS[0], &"x".repeat(TEXT_BYTES))
}

#[tokio::test]
async fn the_bodies_of_waiting_requests_are_bounded_together_and_their_memory_comes_back() {
    let engine = Engine::start();
    // Room for three.
    let plan = plan(&engine, 1)
        .edge_value("/http/max_body_bytes", json!(2 * TEXT_BYTES))
        .edge_value("/http/max_buffered_bytes", json!(4 * TEXT_BYTES));
    let lab = Lab::start(plan).await;
    for round in 0..2 {
        engine.hold();
        let mut sent = vec![lab.occupy(&engine, large()).await];
        sent.push(lab.enqueue(large()).await);
        let third = lab.enqueue(large()).await;

        let refused = lab.send(large()).answer().await;
        assert_eq!(
            (refused.status.as_u16(), code(&refused).as_str()),
            (429, "gateway_overloaded"),
            "round {round}"
        );
        assert!(refused.text().contains("http.max_buffered_bytes"), "{refused:?}");
        assert!(refused.header("retry-after-ms").parse::<u64>().expect("milliseconds") > 0);
        // What is small still fits.
        sent.push(lab.enqueue(chat(MODELS[1], "small")).await);

        third.give_up();
        lab.wait_for_queue(2).await;
        sent.push(lab.enqueue(large()).await);
        let refused = lab.send(large()).answer().await;
        assert_eq!(refused.status, 429, "the freed memory is taken again: {refused:?}");
        engine.release_all();
        for sent in sent {
            assert_eq!(sent.answer().await.status, 200);
        }
        lab.wait_for_rest().await;
    }
    let refused = lab.send(chat(MODELS[0], &"x".repeat(2 * TEXT_BYTES))).answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (413, "request_too_large"));
}
