//! `iop demo --provider`: real servers in place of the built-in model, and servers that are of no use.

use crate::demo::Demo;
use crate::lab::{DEADLINE, EXIT_LIMIT, Site, assert_failed};
use iop_tests::engine::Engine;
use iop_tests::http::{Call, send};
use iop_tests::process::{Finished, Signal};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// A server that says nothing is given up after this: the product's limit is 5 s.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

async fn demo(providers: &[&str]) -> Finished {
    let mut args = vec!["demo", "--http", ":0", "--admin", ":0", "--quic", ":0"];
    args.extend(providers.iter().flat_map(|url| ["--provider", url]));
    Site::empty().run(&args).await
}

fn candidates(model: &Value) -> Vec<&str> {
    let candidates = model["candidates"].as_array().expect("a list");
    candidates.iter().filter_map(|candidate| candidate["provider"].as_str()).collect()
}

#[tokio::test]
async fn the_models_of_several_servers_are_offered_and_a_shared_one_has_both_as_candidates() {
    let (first, second) = (Engine::start(), Engine::start());
    first.set_models(&["org/alpha:q4", "shared"]);
    second.set_models(&["shared", "beta \"quoted\""]);
    let urls = [first.endpoint(), format!("{}/v1", second.endpoint())];
    let demo = Demo::start(&["--provider", &urls[0], "--provider", &urls[1], "--capacity", "1"]).await;

    let list = send(demo.http, Call::get("/v1/models")).await.expect("the edge answers").json();
    let ids: Vec<&str> =
        list["data"].as_array().expect("a list").iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(ids, ["org/alpha:q4", "shared", "beta \"quoted\""]);
    let snapshot = demo.snapshot().await;
    let models = snapshot["models"].as_array().expect("a list");
    let of_models: Vec<_> = models.iter().map(candidates).collect();
    assert_eq!(of_models, [&["provider-1"][..], &["provider-1", "provider-2"], &["provider-2"]]);
    assert!(models.iter().all(|model| model["available"] == true), "{snapshot:#}");

    for (model, engine) in [("org/alpha:q4", &first), ("beta \"quoted\"", &second)] {
        let answer = send(demo.http, Call::chat(model, false)).await.expect("the edge answers");
        assert_eq!((answer.status.as_u16(), &answer.json()["model"]), (200, &json!(model)));
        assert_eq!(engine.look(|log| log.scripted().count()), 1, "{model} is on this server");
    }

    // Two requests for the shared model run at once, one on each server.
    first.hold();
    second.hold();
    let call = || tokio::spawn(send(demo.http, Call::chat("shared", false)));
    let calls = [call(), call()];
    first.wait_held(1, DEADLINE).await;
    second.wait_held(1, DEADLINE).await;
    first.release_all();
    second.release_all();
    for call in calls {
        assert_eq!(call.await.expect("it ended").expect("the edge answers").status, 200);
    }
    demo.stop(Signal::INT).await;
}

#[tokio::test]
async fn a_server_that_refuses_the_connection_is_named_and_the_exit_code_is_1() {
    // Bound and not listening: nobody else takes the port, and connections are refused.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let url = format!("http://{}", socket.local_addr().expect("bound"));
    let good = Engine::start();
    for urls in [&[url.as_str()][..], &[&good.endpoint(), &url]] {
        let finished = demo(urls).await;
        assert_failed(&finished, 1, &["cannot ask", &url, "for its models", "refused the connection"]);
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_a_while() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let begun = Instant::now();
    assert_failed(&demo(&[&url]).await, 1, &["cannot ask", &url, "for its models"]);
    assert!(begun.elapsed() < SILENCE_LIMIT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_demo_that_waits_for_a_silent_server_stops_at_once_when_it_is_told_to() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let site = Site::empty();
    let args = ["demo", "--http", ":0", "--admin", ":0", "--quic", ":0", "--provider", &url];
    let mut process = site.start(&args);
    let _asked =
        tokio::task::spawn_blocking(move || silent.accept()).await.expect("it waited").expect("a call");
    let begun = Instant::now();
    process.signal(Signal::INT);
    assert_eq!(process.wait_for_exit(DEADLINE).await.code(), Some(0));
    assert!(begun.elapsed() < EXIT_LIMIT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn servers_without_any_model_are_an_error_and_not_an_empty_demo() {
    let (first, second) = (Engine::start(), Engine::start());
    first.set_models(&[]);
    second.set_models(&[]);
    let finished = demo(&[&first.endpoint(), &second.endpoint()]).await;
    assert_failed(&finished, 1, &["servers given with --provider list no models"]);
}

#[tokio::test]
async fn what_is_no_url_of_a_server_is_said_to_be_none() {
    for url in ["nonsense", "ftp://127.0.0.1:1", "http://user:secret@127.0.0.1:1"] {
        let finished = demo(&[url]).await;
        assert_failed(&finished, 1, &["is not the URL of a server", "expected an http:// or https:// URL"]);
        assert!(!finished.stderr.concat().contains("secret"), "{finished:#?}");
    }
}
