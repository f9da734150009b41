//! Limits of one API key: `auth.keys[].max_in_flight` and `max_queued`, on top of the global order.

use super::desk::{Desk, granted};
use iop_edge::admission::Refusal;
use iop_tests::admission_model::{Setup, ask, slots};

fn setup() -> Setup {
    let setup = Setup::new().provider("a/x", slots(3)).provider("b/y", slots(3));
    setup.model("m", &["a/x"]).model("n", &["b/y"])
}

#[test]
fn key_at_its_limit_waits_although_slots_are_free() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    let first = desk.submit(ask("m").key("alice")).granted();
    let second = desk.submit(ask("m").key("alice")).queued();
    assert_eq!(granted(&desk.release(first.lease)), [second]);
}

#[test]
fn waiting_requests_of_a_key_at_its_limit_block_no_other() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    desk.submit(ask("m").key("alice")).granted();
    desk.submit(ask("m").key("alice")).queued();
    desk.submit(ask("m").key("bob")).granted();
    desk.submit("m").granted();
}

#[test]
fn returned_slot_passes_the_waiting_request_whose_key_is_at_its_limit() {
    let mut desk = Desk::open(setup().provider("a/x", slots(2)).key("alice", Some(1), None));
    let of_alice = desk.submit(ask("m").key("alice")).granted();
    let of_bob = desk.submit(ask("m").key("bob")).granted();
    let alice_waits = desk.submit(ask("m").key("alice")).queued();
    let bob_waits = desk.submit(ask("m").key("bob")).queued();
    assert_eq!(granted(&desk.release(of_bob.lease)), [bob_waits]);
    assert_eq!(granted(&desk.release(of_alice.lease)), [alice_waits]);
}

#[test]
fn keys_limit_counts_over_all_models_and_providers() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    let on_x = desk.submit(ask("m").key("alice")).granted();
    let on_y = desk.submit(ask("n").key("alice")).queued();
    assert_eq!(granted(&desk.release(on_x.lease)), [on_y], "a slot of y was free all the time");
}

#[test]
fn key_over_max_queued_is_refused_and_others_are_not() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)).key("alice", None, Some(1)));
    desk.submit(ask("m").key("bob")).granted();
    desk.submit(ask("m").key("alice")).queued();
    assert_eq!(desk.submit(ask("m").key("alice")).refused(), Refusal::KeyQueueFull { max: 1 });
    desk.submit(ask("m").key("bob")).queued();
}

#[test]
fn max_queued_of_zero_means_that_the_key_never_waits() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)).key("alice", None, Some(0)));
    let grant = desk.submit(ask("m").key("alice")).granted();
    assert_eq!(desk.submit(ask("m").key("alice")).refused(), Refusal::KeyQueueFull { max: 0 });
    desk.release(grant.lease);
    desk.submit(ask("m").key("alice")).granted();
}

#[test]
fn keys_place_in_the_queue_is_free_again_after_a_grant_and_a_cancel() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)).key("alice", None, Some(1)));
    let running = desk.submit("m").granted();
    let cancelled = desk.submit(ask("m").key("alice")).queued();
    desk.cancel(cancelled);
    desk.submit(ask("m").key("alice")).queued();
    desk.release(running.lease);
    desk.submit(ask("m").key("alice")).queued();
}

// [disconnect-exclusion]
#[test]
fn fenced_lease_counts_no_longer_for_its_key() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    let fenced = desk.submit(ask("m").key("alice")).granted();
    desk.offline("a");
    desk.submit(ask("n").key("alice")).granted();
    assert_eq!(desk.release(fenced.lease), []);
    desk.submit(ask("n").key("alice")).queued();
}

// [refresh-consistency]
#[test]
fn raised_limit_of_a_key_wakes_its_waiting_requests() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    desk.submit(ask("m").key("alice")).granted();
    let waiting: Vec<_> = (0..2).map(|_| desk.submit(ask("m").key("alice")).queued()).collect();
    assert_eq!(granted(&desk.refresh(|setup| setup.key("alice", Some(2), None))), waiting[..1]);
    assert_eq!(granted(&desk.refresh(|setup| setup.key("alice", None, None))), waiting[1..]);
}

// [refresh-consistency]
#[test]
fn lowered_limits_of_a_key_end_nothing_and_admit_nothing() {
    let mut desk = Desk::open(setup().provider("a/x", slots(2)).key("alice", None, None));
    let first = desk.submit(ask("m").key("alice")).granted();
    let second = desk.submit(ask("m").key("alice")).granted();
    let third = desk.submit(ask("m").key("alice")).queued();
    assert_eq!(desk.refresh(|setup| setup.key("alice", Some(1), Some(0))), []);
    assert_eq!(desk.release(first.lease), []);
    assert_eq!(granted(&desk.release(second.lease)), [third]);
}

// [refresh-consistency]
#[test]
fn key_taken_out_of_the_settings_has_no_limits_and_counts_on() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    desk.submit(ask("m").key("alice")).granted();
    let waiting = desk.submit(ask("m").key("alice")).queued();
    let without = |mut setup: Setup| {
        setup.0.keys.clear();
        setup
    };
    assert_eq!(granted(&desk.refresh(without)), [waiting]);
    desk.refresh(|setup| setup.key("alice", Some(2), None));
    desk.submit(ask("m").key("alice")).queued();
}
