//! Usage in streams: the provider's business and the client's wish, in which the edge has no part.

use crate::lab::{MODEL, UPSTREAM, deploy, plan};
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, open};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn usage_comes_when_it_was_asked_for_and_only_then() {
    let engine = Engine::start();
    engine.set_script(Script::stream(3, Duration::ZERO));
    let iop = deploy(plan(&engine, 1)).await;
    for (number, asked) in [true, false].into_iter().enumerate() {
        let mut body = json!({"model": MODEL, "messages": [], "stream": true});
        if asked {
            body["stream_options"] = json!({"include_usage": true});
        }
        let mut stream = open(iop.http, Call::post("/v1/chat/completions", &body)).await.expect("a stream");
        let (events, end) = stream.events().await;
        end.expect("a clean end");
        let usages = events.iter().filter(|(event, _)| event.json()["usage"].is_object()).count();
        assert_eq!(usages, usize::from(asked), "{events:?}");
        body["model"] = UPSTREAM.into();
        assert_eq!(engine.request(number).json(), body, "the wish is the client's own");
    }
    iop.shut_down().await;
}
