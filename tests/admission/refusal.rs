//! What ends at once, and why. The gateway turns these into HTTP.

use super::desk::Desk;
use iop_edge::admission::{Api, ProviderSpec, Refusal};
use iop_tests::admission_model::{Setup, ask, long_slots, provider_key, slots};

#[test]
fn unknown_model_is_not_found() {
    let setup = Setup::new().provider("a/x", slots(1)).model("m", &["a/x"]);
    assert_eq!(Desk::open(setup).submit("nobody").refused(), Refusal::ModelNotFound);
}

#[test]
fn request_longer_than_every_candidates_window_is_refused_with_the_largest() {
    let window = |tokens| ProviderSpec { window: Some(tokens), ..slots(1) };
    let setup = Setup::new().provider("a/x", window(1_000)).provider("b/y", window(4_000));
    let mut desk = Desk::open(setup.model("m", &["a/x", "b/y"]));
    let refusal = desk.submit(ask("m").tokens(4_001)).refused();
    assert_eq!(refusal, Refusal::ContextLengthExceeded { tokens: 4_001, window: 4_000 });
    desk.submit(ask("m").tokens(4_000)).granted();
}

#[test]
fn request_longer_than_every_window_is_refused_so_while_nobody_is_connected_too() {
    let window = ProviderSpec { window: Some(1_000), ..slots(1) };
    let mut desk = Desk::closed(Setup::new().provider("a/x", window).model("m", &["a/x"]));
    let refusal = desk.submit(ask("m").tokens(1_001)).refused();
    assert_eq!(refusal, Refusal::ContextLengthExceeded { tokens: 1_001, window: 1_000 });
}

#[test]
fn provider_without_a_known_window_takes_any_length() {
    let setup = Setup::new().provider("a/x", slots(1)).model("m", &["a/x"]);
    Desk::open(setup).submit(ask("m").tokens(u32::MAX)).granted();
}

#[test]
fn api_that_no_candidate_speaks_is_not_served() {
    let chat = ProviderSpec { apis: Api(0b01), ..slots(1) };
    let mut desk = Desk::open(Setup::new().provider("a/x", chat).model("m", &["a/x"]));
    assert_eq!(desk.submit(ask("m").api(Api(0b10))).refused(), Refusal::ApiNotServed);
    desk.submit(ask("m").api(Api(0b01))).granted();
}

#[test]
fn request_goes_only_to_candidates_that_speak_its_api() {
    let speaking = |bits, capacity| ProviderSpec { apis: Api(bits), ..slots(capacity) };
    let setup = Setup::new().provider("a/x", speaking(0b01, 9)).provider("b/y", speaking(0b11, 1));
    let mut desk = Desk::open(setup.model("m", &["a/x", "b/y"]));
    assert_eq!(&*desk.submit(ask("m").api(Api(0b10))).granted().provider.node, "b");
    desk.submit(ask("m").api(Api(0b10))).queued();
}

#[test]
fn window_of_a_candidate_that_does_not_speak_the_api_does_not_count() {
    let deaf = ProviderSpec { apis: Api(0b01), ..slots(1) };
    let small = ProviderSpec { apis: Api(0b10), window: Some(100), ..slots(1) };
    let mut desk =
        Desk::open(Setup::new().provider("a/x", deaf).provider("b/y", small).model("m", &["a/x", "b/y"]));
    let refusal = desk.submit(ask("m").api(Api(0b10)).tokens(101)).refused();
    assert_eq!(refusal, Refusal::ContextLengthExceeded { tokens: 101, window: 100 });
}

// [disconnect-exclusion]
#[test]
fn request_without_a_live_candidate_is_unavailable_at_once() {
    let mut desk = Desk::closed(Setup::new().provider("a/x", slots(1)).model("m", &["a/x"]));
    assert_eq!(desk.submit("m").refused(), Refusal::Unavailable);
}

#[test]
fn request_whose_only_candidate_is_disabled_is_unavailable_at_once() {
    let disabled = ProviderSpec { enabled: false, ..slots(1) };
    let mut desk = Desk::open(Setup::new().provider("a/x", disabled).model("m", &["a/x"]));
    assert_eq!(desk.submit("m").refused(), Refusal::Unavailable);
}

#[test]
fn request_whose_only_candidate_is_refused_by_its_node_is_unavailable_at_once() {
    let mut desk = Desk::open(Setup::new().provider("a/x", slots(1)).model("m", &["a/x"]));
    desk.applied("a", &[("x", None)]);
    assert_eq!(desk.submit("m").refused(), Refusal::Unavailable);
}

#[test]
fn unavailable_comes_before_queue_full() {
    let mut desk = Desk::closed(Setup::new().provider("a/x", slots(1)).model("m", &["a/x"]).max_queue(0));
    assert_eq!(desk.submit("m").refused(), Refusal::Unavailable);
}

#[test]
fn long_request_is_unavailable_when_only_candidates_without_long_slots_are_connected() {
    let setup = Setup::new().provider("a/long", long_slots(1, 1)).provider("b/y", slots(1));
    let mut desk = Desk::open(setup.model("m", &["a/long", "b/y"]));
    desk.offline("a");
    assert_eq!(desk.submit(ask("m").long()).refused(), Refusal::Unavailable);
    desk.submit("m").granted();
}

// [refresh-consistency]
#[test]
fn provider_taken_out_counts_no_longer_as_a_candidate_although_a_lease_of_it_runs() {
    let chat = ProviderSpec { apis: Api(0b01), ..slots(1) };
    let setup = Setup::new().provider("a/x", slots(1)).provider("b/y", chat).model("m", &["a/x", "b/y"]);
    let mut desk = Desk::open(setup);
    desk.submit(ask("m").api(Api(0b10))).granted();
    desk.refresh(|mut setup| {
        setup.0.providers.remove(&provider_key("a/x"));
        setup
    });
    assert_eq!(desk.submit(ask("m").api(Api(0b10))).refused(), Refusal::ApiNotServed);
}
