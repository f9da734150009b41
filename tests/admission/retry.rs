//! A provider refused a granted request before it began: lease back, and on to another candidate. DESIGN section 2.

use super::desk::{Desk, granted, grants, place};
use iop_edge::admission::Refusal;
use iop_tests::admission_model::{Setup, ask, slots};

fn setup() -> Setup {
    let setup = Setup::new().provider("a/x", slots(1)).provider("b/y", slots(1)).provider("c/z", slots(1));
    let setup = setup.model("m", &["a/x", "b/y"]).model("all", &["a/x", "b/y", "c/z"]);
    setup.model("x", &["a/x"]).model("y", &["b/y"])
}

// [lease-lifecycle]
#[test]
fn retry_returns_the_lease_and_goes_to_another_candidate() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    assert_eq!(place(&first), "a/x");
    let (answer, others) = desk.retry(&first);
    let second = answer.granted();
    assert_eq!((place(&second).as_str(), second.pending.ticket), ("b/y", first.pending.ticket));
    assert!(second.lease > first.lease, "a lease number is never used twice");
    assert_eq!(others, []);
    assert_eq!(desk.provider("a/x").in_flight, 0);
    assert_eq!(desk.release(first.lease), [], "it was returned already");
}

// [cross-group-wakeup]
#[test]
fn lease_returned_by_a_retry_goes_to_the_earliest_that_waits_for_it() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    let waiting = desk.submit("x").queued();
    let (_, others) = desk.retry(&first);
    assert_eq!(granted(&others), [waiting]);
}

#[test]
fn retry_that_has_to_wait_goes_before_those_that_came_later() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    let on_y = desk.submit("y").granted();
    let later = desk.submit("y").queued();
    let (answer, _) = desk.retry(&first);
    assert_eq!(answer.queued(), first.pending.ticket);
    let next = grants(&desk.release(on_y.lease)).remove(0);
    assert_eq!(next.pending.ticket, first.pending.ticket);
    assert_eq!(granted(&desk.release(next.lease)), [later]);
}

#[test]
fn retry_needs_no_room_in_a_full_queue() {
    let mut desk = Desk::open(setup().max_queue(0));
    let first = desk.submit("m").granted();
    desk.submit("y").granted();
    desk.retry(&first).0.queued();
}

#[test]
fn retry_never_returns_to_the_provider_that_refused() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    desk.submit("y").granted();
    desk.retry(&first).0.queued();
    assert_eq!(desk.provider("a/x").in_flight, 0, "free, and not for this one");
    assert_eq!(desk.provider("a/x").queued, 0);
    assert_eq!(desk.provider("b/y").queued, 1);
    desk.submit("x").granted();
}

#[test]
fn request_is_given_up_after_max_attempts() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("all").granted();
    let second = desk.retry(&first).0.granted();
    assert_eq!(desk.retry(&second).0.refused(), Refusal::NoOtherProvider, "two attempts by default");
    assert_eq!(desk.snapshot().leases.active, 0);
}

#[test]
fn max_attempts_of_three_asks_three_providers() {
    let mut desk = Desk::open(setup().max_attempts(3));
    let first = desk.submit("all").granted();
    let second = desk.retry(&first).0.granted();
    let third = desk.retry(&second).0.granted();
    assert_eq!([&first, &second, &third].map(place), ["a/x", "b/y", "c/z"]);
    assert_eq!(desk.retry(&third).0.refused(), Refusal::NoOtherProvider);
}

#[test]
fn max_attempts_of_one_never_retries() {
    let mut desk = Desk::open(setup().max_attempts(1));
    let first = desk.submit("m").granted();
    assert_eq!(desk.retry(&first).0.refused(), Refusal::NoOtherProvider);
}

#[test]
fn retry_without_another_live_candidate_ends_now() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    desk.offline("b");
    assert_eq!(desk.retry(&first).0.refused(), Refusal::NoOtherProvider);
}

#[test]
fn retry_ends_so_too_when_the_provider_that_refused_has_left_the_settings() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    desk.offline("a");
    desk.offline("b");
    desk.refresh(|setup| setup.without_provider("a/x"));
    assert_eq!(desk.retry(&first).0.refused(), Refusal::NoOtherProvider);
}

// [disconnect-exclusion]
#[test]
fn request_of_a_fenced_lease_can_be_tried_elsewhere() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    desk.offline("a");
    assert_eq!(place(&desk.retry(&first).0.granted()), "b/y");
    let leases = desk.snapshot().leases;
    assert_eq!((leases.active, leases.released_total, leases.fenced_total), (1, 0, 1));
}

#[test]
fn waiting_retry_that_loses_its_last_candidate_is_unavailable() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    desk.submit("y").granted();
    let ticket = desk.retry(&first).0.queued();
    assert_eq!(desk.offline("b"), [super::desk::ended(ticket, Refusal::Unavailable)]);
}

#[test]
fn waiting_retry_keeps_its_place_and_its_exclusion_through_a_refresh() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    let on_y = desk.submit("y").granted();
    let ticket = desk.retry(&first).0.queued();
    assert_eq!(desk.refresh(|setup| setup.provider("0/zero", slots(1))), []);
    let next = grants(&desk.release(on_y.lease)).remove(0);
    assert_eq!((next.pending.ticket, place(&next).as_str()), (ticket, "b/y"));
}

#[test]
fn retry_times_out_from_its_first_arrival() {
    let mut desk = Desk::open(setup().timeout_sec(30));
    let first = desk.submit("m").granted();
    desk.submit("y").granted();
    desk.wait(20);
    let ticket = desk.retry(&first).0.queued();
    assert_eq!(desk.pass(9), []);
    let refusal = Refusal::QueueTimeout { timeout: std::time::Duration::from_secs(30) };
    assert_eq!(desk.pass(1), [super::desk::ended(ticket, refusal)]);
}

#[test]
fn retry_of_a_model_removed_meanwhile_ends_with_model_not_found() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    desk.refresh(|setup| setup.without_model("m"));
    assert_eq!(desk.retry(&first).0.refused(), Refusal::ModelNotFound);
    assert_eq!(desk.provider("a/x").in_flight, 0);
}

#[test]
fn retries_of_one_model_with_different_refusals_wait_apart() {
    let mut desk = Desk::open(setup().max_attempts(3));
    let on_x = desk.submit("all").granted();
    let on_y = desk.submit("all").granted();
    let on_z = desk.submit("all").granted();
    let second_x = desk.retry(&on_y).0;
    let waits_for_x = second_x.queued();
    assert_eq!(place(&on_z), "c/z");
    let waiter = desk.submit(ask("all")).granted();
    assert_eq!(place(&waiter), "b/y", "free for whoever was not refused there");
    let next = grants(&desk.release(on_x.lease)).remove(0);
    assert_eq!((next.pending.ticket, place(&next).as_str()), (waits_for_x, "a/x"));
}

// [cross-group-wakeup]
#[test]
fn retry_takes_its_turn_behind_an_earlier_request_that_its_key_held_back() {
    let mut desk = Desk::open(setup().provider("a/x", slots(2)).key("alice", Some(1), None));
    let blocker = desk.submit("y").granted();
    let earlier = desk.submit(ask("y").key("alice")).queued();
    let later = desk.submit(ask("all").key("alice")).granted();
    assert_eq!(desk.release(blocker.lease), [], "alice runs her one request");
    let (answer, others) = desk.retry(&later);
    assert_eq!(granted(&others), [earlier]);
    assert_eq!(answer.queued(), later.pending.ticket);
}

// [cross-group-wakeup]
#[test]
fn earlier_request_gets_the_returned_lease_before_the_retry_gets_another() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    let on_y = desk.submit("y").granted();
    let on_z = desk.submit("all").granted();
    let earlier = desk.submit("all").queued();
    let (_, first) = desk.retry(&on_z);
    let moved = grants(&first).remove(0);
    assert_eq!((moved.pending.ticket, place(&moved).as_str()), (earlier, "c/z"));
    let later = desk.submit("m").queued();
    assert_eq!(granted(&desk.release(on_y.lease)), [on_z.pending.ticket]);
    assert_eq!(desk.cancel(later), []);
}
