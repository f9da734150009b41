//! Which settings of the edge a node puts in force, and the reasons it gives for the others.

use super::lab::{Lab, echo, openai};
use iop_tests::engine::Engine;
use iop_transport::wire::{Adapter, ProviderSettings, RefusalReason};

#[tokio::test]
async fn a_provider_that_this_node_cannot_or_may_not_run_is_refused_with_the_reason() {
    let lab = Lab::start([]).await;
    let at = |endpoint: &str| openai("p", endpoint, 1);
    let local = || at("http://127.0.0.1:8081");
    let adapter = Adapter::Ollama { endpoint: "http://10.0.0.5:11434".into() };
    let key = |name: &str| ProviderSettings { api_key_env: Some(name.into()), ..local() };
    let header =
        |name: &str, value: &str| ProviderSettings { headers: vec![(name.into(), value.into())], ..local() };
    let allowed = "is not among this node's allow_endpoints (http://127.0.0.1:*, http://localhost:*, https://localhost:*)";
    let cases = [
        (at("http://10.0.0.5:8081"), format!("endpoint http://10.0.0.5:8081 {allowed}")),
        (at("http://127.0.0.1.example.com:1"), format!("endpoint http://127.0.0.1.example.com:1 {allowed}")),
        (at("https://127.0.0.1:1"), format!("endpoint https://127.0.0.1:1 {allowed}")),
        (
            at("https://localhost:1"),
            "this node cannot check certificates, which https endpoints need: there are no trusted root"
                .into(),
        ),
        (at("ftp://127.0.0.1"), "endpoint is not usable as an endpoint".into()),
        (at("http://user:secret@127.0.0.1:1"), "endpoint is not usable as an endpoint".into()),
        (ProviderSettings { adapter, ..local() }, format!("endpoint http://10.0.0.5:11434 {allowed}")),
        (key("NO_KEY"), "environment variable NO_KEY (api_key_env) is not set on this node".into()),
        (header("host", "x"), "headers: \"host\" cannot be set here".into()),
        (header("x-a", "1\r\n2"), "headers: \"x-a\" cannot be set here".into()),
    ];
    for (settings, reason) in cases {
        let applied = lab.apply([echo("echo", 1, 0, 2), settings]);
        let [refused] = &applied.refused[..] else {
            panic!("one refusal was expected for {reason}: {applied:?}")
        };
        assert_eq!(refused.id, "p");
        assert!(refused.reason.starts_with(&reason), "{} / {reason}", refused.reason);
        assert!(!refused.reason.contains("secret"), "{}", refused.reason);
        assert_eq!(lab.providers.total_capacity(), 2, "the other provider is in force");
        assert_eq!(lab.chat("p").await.refusal().reason, RefusalReason::UnknownProvider);
    }
}

#[tokio::test]
async fn a_provider_whose_new_settings_are_refused_is_no_longer_in_force() {
    let engine = Engine::start();
    let lab = Lab::start([openai("p", &engine.endpoint(), 1)]).await;
    assert_eq!(lab.chat("p").await.answer().0, 200);
    assert_eq!(lab.apply([openai("p", "http://10.0.0.5:8081", 1)]).refused.len(), 1);
    assert_eq!(lab.chat("p").await.refusal().reason, RefusalReason::UnknownProvider);
}

#[tokio::test]
async fn an_id_used_twice_counts_once() {
    let lab = Lab::start([]).await;
    let applied = lab.apply([echo("echo", 1, 0, 2), echo("echo", 1, 0, 5)]);
    assert_eq!(applied.refused.len(), 1);
    assert_eq!(lab.providers.total_capacity(), 2);
}

#[tokio::test]
async fn an_answer_names_the_revision_and_capacities_add_up_without_overflow() {
    let lab = Lab::start([]).await;
    let applied = lab.apply([echo("a", 1, 0, u32::MAX), echo("b", 1, 0, 7)]);
    assert_eq!((applied.revision, applied.refused.len()), (1, 0));
    assert_eq!(lab.providers.total_capacity(), u32::MAX);
}
