//! Who goes when a slot comes free: the earliest that can run now, across all models. SPEC A [cross-group-wakeup].

use super::desk::{Desk, granted};
use iop_edge::admission::ProviderSpec;
use iop_tests::admission_model::{Setup, ask, long_slots, slots};

/// Models `m` and `n` on one provider with one slot, and `other` on another.
fn setup() -> Setup {
    let setup = Setup::new().provider("a/x", slots(1)).provider("b/y", slots(1));
    setup.model("m", &["a/x"]).model("n", &["a/x"]).model("other", &["b/y"]).model("both", &["a/x", "b/y"])
}

// [cross-group-wakeup]
#[test]
fn returned_lease_goes_to_the_earliest_of_all_models() {
    let mut desk = Desk::open(setup());
    let mut running = desk.submit("m").granted();
    let waiting: Vec<_> = ["n", "m", "m", "n"].into_iter().map(|model| desk.submit(model).queued()).collect();
    for ticket in waiting {
        let effects = desk.release(running.lease);
        assert_eq!(granted(&effects), [ticket]);
        running = super::desk::grants(&effects).remove(0);
    }
}

// [cross-group-wakeup]
#[test]
fn waiting_long_request_does_not_block_a_normal_one_behind_it() {
    let setup = Setup::new().provider("a/x", long_slots(2, 1)).model("m", &["a/x"]);
    let mut desk = Desk::open(setup);
    let long = desk.submit(ask("m").long()).granted();
    let waiting = desk.submit(ask("m").long()).queued();
    desk.submit("m").granted();
    assert_eq!(granted(&desk.release(long.lease)), [waiting]);
}

// [cross-group-wakeup]
#[test]
fn normal_slot_that_returns_passes_the_long_request_that_still_cannot_run() {
    let setup = Setup::new().provider("a/x", long_slots(2, 1)).model("m", &["a/x"]).model("n", &["a/x"]);
    let mut desk = Desk::open(setup);
    let long = desk.submit(ask("m").long()).granted();
    let normal = desk.submit("m").granted();
    let second_long = desk.submit(ask("m").long()).queued();
    let second_normal = desk.submit("n").queued();
    assert_eq!(granted(&desk.release(normal.lease)), [second_normal]);
    assert_eq!(granted(&desk.release(long.lease)), [second_long]);
}

// [cross-group-wakeup]
#[test]
fn model_whose_provider_is_busy_blocks_no_other_model() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    desk.submit("m").queued();
    desk.submit("other").granted();
}

// [cross-group-wakeup]
#[test]
fn earlier_request_of_a_narrow_model_goes_before_a_later_one_of_a_wide_model() {
    let mut desk = Desk::open(setup());
    let on_x = desk.submit("m").granted();
    desk.submit("other").granted();
    let narrow = desk.submit("n").queued();
    let wide = desk.submit("both").queued();
    assert_eq!(granted(&desk.release(on_x.lease)), [narrow]);
    assert_eq!(desk.provider("b/y").queued, 1);
    assert_eq!(desk.provider("a/x").queued, 1, "the wide one still waits for both");
    assert_eq!(desk.cancel(wide), []);
}

// [cross-group-wakeup]
#[test]
fn nothing_starves_behind_later_arrivals_of_another_model() {
    let mut desk = Desk::open(setup());
    let mut running = desk.submit("m").granted();
    let patient = desk.submit("n").queued();
    desk.submit("m").queued();
    desk.submit("m").queued();
    let effects = desk.release(running.lease);
    assert_eq!(granted(&effects), [patient], "it was first, whatever came after");
    running = super::desk::grants(&effects).remove(0);
    assert_eq!(granted(&desk.release(running.lease)).len(), 1);
}

// [cross-group-wakeup]
#[test]
fn cancelled_request_gets_no_slot_and_the_next_one_does() {
    let mut desk = Desk::open(setup());
    let running = desk.submit("m").granted();
    let given_up = desk.submit("m").queued();
    let next = desk.submit("n").queued();
    assert_eq!(desk.cancel(given_up), []);
    assert_eq!(granted(&desk.release(running.lease)), [next]);
}

// [cross-group-wakeup]
#[test]
fn one_returned_slot_is_given_once() {
    let mut desk = Desk::open(setup());
    let running = desk.submit("m").granted();
    desk.submit("m").queued();
    desk.submit("n").queued();
    desk.submit("both").granted();
    assert_eq!(granted(&desk.release(running.lease)).len(), 1);
    assert_eq!(desk.snapshot().queue.length, 1);
}

// [cross-group-wakeup] [refresh-consistency]
#[test]
fn enabling_a_provider_wakes_those_that_wait_for_another_in_order() {
    let disabled = ProviderSpec { enabled: false, ..slots(2) };
    let mut desk = Desk::open(setup().provider("b/y", disabled));
    desk.submit("both").granted();
    let waiting: Vec<_> = (0..3).map(|_| desk.submit("both").queued()).collect();
    let effects = desk.refresh(|setup| setup.provider("b/y", slots(2)));
    assert_eq!(granted(&effects), waiting[..2]);
}

// [cross-group-wakeup] [disconnect-queue-resolution]
#[test]
fn disconnect_of_one_node_wakes_what_a_key_limit_held_back_on_another() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    desk.submit(ask("other").key("alice")).granted();
    let held_back = desk.submit(ask("m").key("alice")).queued();
    assert_eq!(granted(&desk.offline("b")), [held_back]);
}

// [cross-group-wakeup] [refresh-consistency]
#[test]
fn raised_capacity_wakes_as_many_as_it_has_room_for() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    let waiting: Vec<_> = ["n", "m", "n"].into_iter().map(|model| desk.submit(model).queued()).collect();
    assert_eq!(granted(&desk.refresh_everywhere(|setup| setup.provider("a/x", slots(3)))), waiting[..2]);
}
