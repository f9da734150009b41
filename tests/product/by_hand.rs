//! The three processes by hand: the commands and the example files that a newcomer finds, with nothing but ports changed.

use crate::lab::{DEADLINE, EXIT_LIMIT, Site};
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, open, send};
use iop_tests::process::{Process, Signal, ready_values};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// An example file with these texts replaced, each of which it has exactly once.
fn example(name: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    changes.iter().fold(text, |text, (old, new)| {
        assert_eq!(text.matches(old).count(), 1, "{old:?} in {name}");
        text.replace(old, new)
    })
}

struct ByHand {
    edge: Process,
    node: Process,
    http: SocketAddr,
    _site: Site,
}

impl ByHand {
    async fn start(engine: &Engine) -> Self {
        let site = Site::empty();
        for args in ["certs init --dir pki", "certs issue --dir pki --node gpu-a"] {
            let args: Vec<&str> = args.split(' ').collect();
            site.run(&args).await.expect_success(&args.join(" "));
        }
        let listen = [
            ("listen: \"[::]:7443\"", "listen: \"[::]:0\""),
            ("listen: \"127.0.0.1:8080\"", "listen: \"127.0.0.1:0\""),
            ("http://127.0.0.1:8081", &engine.endpoint()),
        ];
        // The example leaves the admin listener at its default port.
        let edge_file = example("edge.yaml", &listen) + "\nadmin: { listen: \"127.0.0.1:0\" }\n";
        site.write("edge.yaml", &edge_file);
        let mut edge = site.start(&["edge", "--config", "edge.yaml"]);
        let ready = ready_values(&edge.wait_for_line("ready ", DEADLINE).await);
        let quic: SocketAddr = ready["quic"].parse().expect("an address");
        let address = format!("127.0.0.1:{}", quic.port());
        site.write("node.yaml", &example("node.yaml", &[("127.0.0.1:7443", &address)]));
        let mut node = site.start(&["node", "--config", "node.yaml"]);
        let welcomed = node.wait_for_line("ready ", DEADLINE).await;
        assert_eq!(welcomed, format!("ready node=gpu-a edge={address} generation=1"));
        Self { edge, node, http: ready["http"].parse().expect("an address"), _site: site }
    }
}

#[tokio::test]
async fn the_example_files_and_the_commands_beside_them_make_a_deployment_that_answers() {
    let engine = Engine::start();
    let script = Script::stream(4, Duration::ZERO);
    engine.set_script(script.clone());
    let mut hand = ByHand::start(&engine).await;
    let post = |path, body| send(hand.http, Call::post(path, &body));

    let chat = send(hand.http, Call::chat("ornith:35b", false)).await.expect("an answer").json();
    assert_eq!(chat["choices"][0]["message"]["content"], script.text());
    let body = json!({"model": "ornith-fast", "prompt": "hello"});
    let completion = post("/v1/completions", body).await.expect("an answer").json();
    assert_eq!(completion["choices"][0]["text"], script.text());
    let body = json!({"model": "ornith-fast", "input": ["a", "b"]});
    let embeddings = post("/v1/embeddings", body).await.expect("an answer").json();
    assert_eq!(embeddings["data"].as_array().map(Vec::len), Some(2));
    for call in [
        Call::chat("ornith:35b", true),
        Call::post("/v1/completions", &json!({"model": "ornith-fast", "prompt": "hello", "stream": true})),
    ] {
        let mut stream = open(hand.http, call).await.expect("the stream begins");
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        let (events, end) = stream.events().await;
        end.expect("a clean end");
        let text: String = events.iter().map(|(event, _)| event.text()).collect();
        assert_eq!(text, script.text());
        assert_eq!(events.last().expect("events").0.data, "[DONE]");
    }
    let paths: Vec<String> = engine.look(|log| log.scripted().map(|request| request.path.clone()).collect());
    let (chat, completions) = ("/v1/chat/completions", "/v1/completions");
    assert_eq!(paths, [chat, completions, "/v1/embeddings", chat, completions]);

    for (process, name) in [(&mut hand.node, "node"), (&mut hand.edge, "edge")] {
        let begun = Instant::now();
        process.signal(Signal::INT);
        assert_eq!(process.wait_for_exit(DEADLINE).await.code(), Some(0), "{name}");
        assert!(begun.elapsed() < EXIT_LIMIT, "{name}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn models_are_listed_and_found_by_ids_with_slashes_and_colons() {
    let engine = Engine::start();
    let plan = crate::lab::plan(&engine, 1).model("org/ornith:35b", &[("gpu-a", "engine")], "up");
    let iop = crate::lab::deploy(plan).await;
    let list = send(iop.http, Call::get("/v1/models")).await.expect("an answer").json();
    assert_eq!(list["object"], "list");
    let data = list["data"].as_array().expect("a list");
    let ids: Vec<_> = data.iter().map(|model| (&model["id"], &model["object"])).collect();
    let model = &json!("model");
    assert_eq!(ids, [(&json!("ornith:35b"), model), (&json!("org/ornith:35b"), model)]);
    for (path, id) in [
        ("ornith:35b", "ornith:35b"),
        ("ornith%3A35b", "ornith:35b"),
        ("org/ornith:35b", "org/ornith:35b"),
        ("org%2Fornith%3a35b", "org/ornith:35b"),
    ] {
        let answer = send(iop.http, Call::get(&format!("/v1/models/{path}"))).await.expect("an answer");
        assert_eq!((answer.status.as_u16(), &answer.json()["id"]), (200, &json!(id)), "{path}");
    }
    for path in ["/v1/models/ornith", "/v1/models/org", "/v1/models/org/ornith:35b/more"] {
        let answer = send(iop.http, Call::get(path)).await.expect("an answer");
        let code = answer.json()["error"]["code"].take();
        assert_eq!((answer.status.as_u16(), code), (404, json!("model_not_found")), "{path}");
    }
    assert_eq!(engine.look(|log| log.requests.len()), 0, "the list is the edge's own");
    iop.shut_down().await;
}
