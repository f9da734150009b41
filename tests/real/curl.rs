//! curl, as people call it by hand.

use crate::lab::{DEADLINE, MODEL, UPSTREAM, deploy, scripted, wait_for_no_lease};
use crate::large::{assert_model_after_sound, sound, write};
use crate::shapes;
use iop_tests::engine::{Engine, Script};
use iop_tests::process::{Finished, Program};
use serde_json::{Value, json};
use std::time::Duration;

async fn curl(arguments: &[&str]) -> Finished {
    let program = Program::new("curl").args(["--silent", "--show-error", "--max-time", "30"]);
    program.args(arguments).run(2 * DEADLINE).await.expect_success("curl, which must be installed")
}

fn chat(stream: bool) -> String {
    json!({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "hello"}]}).to_string()
}

#[tokio::test]
async fn curl_is_answered_over_http_1_and_http_2_and_streamed_to() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine)).await;
    let url = format!("http://{}/v1/chat/completions", iop.http);
    for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
        let finished = curl(&[version, &url, "-d", &chat(false)]).await;
        let answer: Value = serde_json::from_str(&finished.stdout.concat()).expect("the answer is JSON");
        assert_eq!(answer["choices"][0]["message"]["content"], Script::answer().text(), "{version}");
    }
    engine.set_script(Script::stream(4, Duration::from_millis(20)));
    let finished = curl(&["-N", &url, "-d", &chat(true)]).await;
    let events: Vec<&String> = finished.stdout.iter().filter(|line| line.starts_with("data: ")).collect();
    assert_eq!((events.len(), events[5].as_str()), (6, "data: [DONE]"), "{finished:#?}");

    engine.look(|log| {
        for request in log.scripted() {
            let seen = (request.json()["model"].take(), request.header("content-type").to_owned());
            assert_eq!(seen, (json!(UPSTREAM), "application/json".to_owned()), "{request:?}");
        }
    });
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

/// curl asks with `expect: 100-continue` before it sends a large form.
#[tokio::test]
async fn curl_sends_a_sound_before_the_model_that_is_to_hear_it() {
    let engine = Engine::start();
    engine.set_script(shapes::whole(&json!({"text": "said"})));
    let iop = deploy(scripted(&engine)).await;
    let sound = sound();
    let file = format!("file=@{}", write(&iop, "sound.wav", &sound));
    let url = format!("http://{}/v1/audio/transcriptions", iop.http);
    let model = format!("model={MODEL}");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let finished = curl(&[version, &url, "-F", &file, "-F", &model, "-F", "language=en"]).await;
        assert_eq!(finished.stdout.concat(), r#"{"text":"said"}"#, "{version}");
    }
    for number in 0..2 {
        assert_model_after_sound(&engine.wait_answered(number, DEADLINE).await, &sound);
    }
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}
