//! Long-context slots. SPEC A [long-state]. The check of `context_window_tokens * long_context_capacity` against
//! `total_context_tokens` belongs to the config crate.

use super::desk::{Desk, granted};
use iop_edge::admission::Context;
use iop_tests::admission_model::{Setup, ask, long_slots, slots};

fn shared(capacity: u32, long: u32) -> Setup {
    let setup = Setup::new().provider("a/x", long_slots(capacity, long));
    setup.model("m", &["a/x"]).threshold("m", 100).model("n", &["a/x"]).threshold("n", 100)
}

// [long-state]
#[test]
fn long_requests_of_two_models_share_the_long_slots_of_their_provider() {
    let mut desk = Desk::open(shared(4, 1));
    let first = desk.submit(ask("m").tokens(101)).granted();
    assert!(first.long);
    let second = desk.submit(ask("n").tokens(101)).queued();
    assert_eq!(desk.provider("a/x").long_in_flight, 1);
    assert_eq!(granted(&desk.release(first.lease)), [second]);
    assert_eq!(desk.provider("a/x").long_in_flight, 1);
}

// [long-state]
#[test]
fn long_request_takes_one_normal_slot_too() {
    let mut desk = Desk::open(shared(2, 1));
    desk.submit(ask("m").long()).granted();
    assert_eq!((desk.provider("a/x").in_flight, desk.provider("a/x").long_in_flight), (1, 1));
    desk.submit("m").granted();
    desk.submit("m").queued();
}

// [long-state]
#[test]
fn long_request_waits_for_a_normal_slot_although_a_long_one_is_free() {
    let mut desk = Desk::open(shared(1, 1));
    let normal = desk.submit("m").granted();
    let long = desk.submit(ask("m").long()).queued();
    assert_eq!(desk.provider("a/x").long_in_flight, 0, "neither slot is held while it waits for both");
    assert_eq!(granted(&desk.release(normal.lease)), [long]);
}

// [long-state]
#[test]
fn long_request_never_takes_its_two_slots_from_two_providers() {
    let setup = Setup::new().provider("a/busy", long_slots(1, 1)).provider("a/free", slots(4));
    let setup = setup.model("m", &["a/busy", "a/free"]).model("blocker", &["a/busy"]);
    let mut desk = Desk::open(setup);
    let blocker = desk.submit("blocker").granted();
    let long = desk.submit(ask("m").long()).queued();
    assert_eq!(granted(&desk.release(blocker.lease)), [long]);
}

// [long-state]
#[test]
fn long_request_returns_both_slots_at_once() {
    let mut desk = Desk::open(shared(2, 1));
    let long = desk.submit(ask("m").long()).granted();
    desk.release(long.lease);
    let provider = desk.provider("a/x");
    assert_eq!((provider.in_flight, provider.long_in_flight), (0, 0));
}

// [long-state]
#[test]
fn request_is_long_from_one_token_over_the_threshold() {
    let mut desk = Desk::open(shared(4, 2));
    assert!(!desk.submit(ask("m").tokens(100)).granted().long);
    assert!(desk.submit(ask("m").tokens(101)).granted().long);
}

// [long-state]
#[test]
fn what_the_client_says_overrides_the_estimate() {
    let mut desk = Desk::open(shared(4, 2));
    assert!(desk.submit(ask("m").tokens(1).context(Context::Long)).granted().long);
    assert!(!desk.submit(ask("m").tokens(5_000).context(Context::Normal)).granted().long);
}

// [long-state]
#[test]
fn no_request_is_long_by_itself_without_a_threshold() {
    let setup = Setup::new().provider("a/x", long_slots(2, 1)).model("m", &["a/x"]);
    assert!(!Desk::open(setup).submit(ask("m").tokens(u32::MAX)).granted().long);
}

// [long-state]
#[test]
fn long_request_goes_as_normal_where_no_candidate_has_long_slots() {
    let setup = Setup::new().provider("a/x", slots(2)).model("m", &["a/x"]).threshold("m", 100);
    assert!(!Desk::open(setup).submit(ask("m").tokens(101)).granted().long);
}

// [long-state] [refresh-consistency]
#[test]
fn long_capacity_lowered_below_its_use_admits_nothing_long_until_use_falls_below_it() {
    let mut desk = Desk::open(shared(4, 2));
    let first = desk.submit(ask("m").long()).granted();
    let second = desk.submit(ask("m").long()).granted();
    assert_eq!(desk.refresh(|setup| setup.provider("a/x", long_slots(4, 1))), []);
    assert_eq!(desk.provider("a/x").long_in_flight, 2, "running requests stay");
    let third = desk.submit(ask("n").long()).queued();
    assert_eq!(desk.release(first.lease), []);
    assert_eq!(granted(&desk.release(second.lease)), [third]);
}

// [long-state] [refresh-consistency]
#[test]
fn raised_long_capacity_counts_for_those_that_wait() {
    let mut desk = Desk::open(shared(4, 1));
    desk.submit(ask("m").long()).granted();
    let waiting = desk.submit(ask("n").long()).queued();
    assert_eq!(granted(&desk.refresh(|setup| setup.provider("a/x", long_slots(4, 2)))), [waiting]);
}
