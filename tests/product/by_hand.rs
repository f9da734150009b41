//! The three processes by hand: README's own commands and the example files, with nothing but ports changed.

use crate::lab::{DEADLINE, EXIT_LIMIT, Site, assert_says, curl_arguments, curl_request};
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

/// The commands in the code blocks of README's section of three processes, without their comments.
fn readme() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let section = text.split_once("\n## Three processes\n").expect("README has that section").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    let joined: String = blocks.map(|block| block.replace("\\\n", " ")).collect();
    joined.lines().map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned()).collect()
}

struct ByHand {
    edge: Process,
    node: Process,
    http: SocketAddr,
    _site: Site,
}

impl ByHand {
    async fn start(engine: &Engine) -> Self {
        let commands = readme();
        let [copy, init, issue, edge, node, _curl, _snapshot, status] = commands.as_slice() else {
            panic!("{commands:#?}")
        };
        assert_eq!(copy, "cp -r config/examples my-iop && cd my-iop");
        let arguments = |line: &str| {
            let words = line.split(' ').map(str::to_owned);
            let [program, arguments @ ..] = &words.collect::<Vec<_>>()[..] else {
                panic!("{line:?} is empty")
            };
            assert_eq!(program, "iop", "{line:?}");
            arguments.to_vec()
        };
        let site = Site::empty();
        for line in [init, issue] {
            let arguments = arguments(line);
            site.run(&borrowed(&arguments)).await.expect_success(line);
        }
        let listen = [
            ("listen: \"[::]:7443\"", "listen: \"[::]:0\""),
            ("listen: \"127.0.0.1:8080\"", "listen: \"127.0.0.1:0\""),
            ("http://127.0.0.1:8081", &engine.endpoint()),
        ];
        // The example leaves the admin listener at its default port.
        let edge_file = example("edge.yaml", &listen) + "\nadmin: { listen: \"127.0.0.1:0\" }\n";
        site.write("edge.yaml", &edge_file);
        let mut edge = site.start(&borrowed(&arguments(edge)));
        let ready = ready_values(&edge.wait_for_line("ready ", DEADLINE).await);
        let quic: SocketAddr = ready["quic"].parse().expect("an address");
        let address = format!("127.0.0.1:{}", quic.port());
        site.write("node.yaml", &example("node.yaml", &[("127.0.0.1:7443", &address)]));
        let mut node = site.start(&borrowed(&arguments(node)));
        let welcomed = node.wait_for_line("ready ", DEADLINE).await;
        assert_eq!(welcomed, format!("ready node=gpu-a edge={address} generation=1"));
        let status = arguments(status);
        let shown = site.run(&[&borrowed(&status), &["--admin", &*ready["admin"]][..]].concat()).await;
        assert_says(&shown.expect_success("status").stdout, &["gpu-a", "connected"]);
        Self { edge, node, http: ready["http"].parse().expect("an address"), _site: site }
    }
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn the_commands_of_readme_and_the_example_files_make_a_deployment_that_answers() {
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
    let curl = readme()[5].replace("127.0.0.1:8080", &hand.http.to_string());
    let call = curl_request(&curl_arguments(&curl).await, hand.http);
    let (events, end) = open(hand.http, call).await.expect("the stream begins").events().await;
    end.expect("a clean end");
    assert_eq!(events.iter().map(|(event, _)| event.text()).collect::<String>(), script.text());
    let paths: Vec<String> = engine.look(|log| log.scripted().map(|request| request.path.clone()).collect());
    let (chat, completions) = ("/v1/chat/completions", "/v1/completions");
    assert_eq!(paths, [chat, completions, "/v1/embeddings", chat, completions, chat]);

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
