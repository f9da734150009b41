//! Which settings of the edge a node puts in force, and the reasons it gives for the others.

use super::lab::{CHAT, DEADLINE, Lab, Outcome, echo, normalized, ollama, openai, tunnel};
use iop_node::{Providers, TcpConnector};
use iop_tests::engine::{Engine, Script};
use iop_transport::wire::{Adapter, Apply, Operation, ProviderSettings, RefusalReason, TEXT_BYTES};
use std::sync::Arc;

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
        (
            key("EMPTY_KEY"),
            "environment variable EMPTY_KEY (api_key_env) is not set on this node, or is empty".into(),
        ),
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

#[test]
fn a_node_that_allows_no_endpoint_says_so_and_a_reason_is_never_longer_than_a_text() {
    for (allowed, end) in [(0, "allow_endpoints (none)"), (500, "")] {
        let allowed = vec!["http://a.example.com:*".parse().expect("a pattern"); allowed];
        let providers = Providers::new(Arc::new(TcpConnector), allowed, |_| None);
        let apply = Apply { revision: 1, providers: vec![ollama("p", "http://10.0.0.5:11434", 1)] };
        let [refused] = &providers.apply(&apply).refused[..] else { panic!("one refusal was expected") };
        assert!(refused.reason.ends_with(end), "{}", refused.reason);
        assert!(refused.reason.len() <= TEXT_BYTES, "{} bytes", refused.reason.len());
    }
}

#[tokio::test]
async fn a_changed_key_counts_for_the_next_run_and_leaves_the_one_in_flight_alone() {
    let engine = Engine::start();
    let settings = |key: Option<&str>| ProviderSettings {
        api_key_env: key.map(str::to_owned),
        ..openai("p", &engine.endpoint(), 2)
    };
    let lab = Lab::start([settings(Some("ENGINE_KEY"))]).await;
    engine.hold();
    let (_, first) = lab.open("p", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    let first = tokio::spawn(Outcome::of(first));
    engine.wait_held(1, DEADLINE).await;
    for (number, key, sent) in [(1, Some("OTHER_KEY"), "Bearer another-key"), (2, None, "")] {
        assert_eq!(lab.apply([settings(key)]).refused, []);
        let (lease, next) = lab.open("p", tunnel("POST", "/v1/chat/completions"), CHAT).await;
        let next = tokio::spawn(Outcome::of(next));
        engine.wait_received(number + 1, DEADLINE).await;
        assert_eq!(engine.request(number).header("authorization"), sent);
        // The run of before holds its place in the gate that the new settings share.
        assert_eq!(lab.chat("p").await.refusal().detail, "provider p on this node runs 2 of 2");
        engine.wait_held(2, DEADLINE).await;
        next.abort();
        lab.returned(lease).await;
        engine.wait_held(1, DEADLINE).await;
    }
    engine.release_all();
    assert_eq!(first.await.expect("no panic").answer().0, 200);
    assert_eq!(engine.request(0).header("authorization"), "Bearer the-engines-key");
}

#[tokio::test]
async fn a_provider_whose_adapter_changes_while_a_run_is_in_flight_keeps_its_gate() {
    let engine = Engine::start();
    let lab = Lab::start([openai("p", &engine.endpoint(), 1)]).await;
    engine.hold();
    let (_, first) = lab.open("p", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    let first = tokio::spawn(Outcome::of(first));
    engine.wait_held(1, DEADLINE).await;
    assert_eq!(lab.apply([ollama("p", &engine.endpoint(), 1)]).refused, []);
    let (_, second) = lab.open("p", normalized(Operation::Chat), CHAT).await;
    assert_eq!(Outcome::of(second).await.refusal().reason, RefusalReason::GateFull);
    engine.release_all();
    assert_eq!(first.await.expect("no panic").answer().0, 200);
    engine.set_script(Script::body("{\"done\":true}"));
    let (_, third) = lab.open("p", normalized(Operation::Chat), CHAT).await;
    assert_eq!(Outcome::of(third).await.events().len(), 1);
    assert_eq!(engine.peak(), 1);
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
