//! The one queue and its policy. SPEC B [queue-ownership]. That a queue setting under a provider or a model is refused is
//! the config crate's to show.

use super::desk::{Desk, ended, granted};
use iop_edge::admission::{Refusal, Ticket};
use iop_tests::admission_model::{Setup, slots};
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);

fn setup() -> Setup {
    let setup = Setup::new().provider("a/x", slots(1)).provider("b/y", slots(1)).timeout_sec(30);
    setup.model("m", &["a/x"]).model("n", &["b/y"])
}

fn timed_out(ticket: Ticket, seconds: u32) -> iop_edge::admission::Effect {
    ended(ticket, Refusal::QueueTimeout { timeout: SEC * seconds })
}

// [queue-ownership]
#[test]
fn max_queue_bounds_the_waiting_requests_of_all_models_together() {
    let mut desk = Desk::open(setup().max_queue(2));
    desk.submit("m").granted();
    desk.submit("n").granted();
    desk.submit("m").queued();
    desk.submit("n").queued();
    assert_eq!(desk.submit("m").refused(), Refusal::QueueFull { max: 2 });
    assert_eq!(desk.submit("n").refused(), Refusal::QueueFull { max: 2 });
}

// [queue-ownership]
#[test]
fn full_queue_does_not_keep_out_a_request_that_can_run_now() {
    let mut desk = Desk::open(setup().max_queue(1));
    desk.submit("m").granted();
    desk.submit("m").queued();
    desk.submit("n").granted();
}

// [queue-ownership]
#[test]
fn max_queue_of_zero_means_that_nothing_ever_waits() {
    let mut desk = Desk::open(setup().max_queue(0));
    let grant = desk.submit("m").granted();
    assert_eq!(desk.submit("m").refused(), Refusal::QueueFull { max: 0 });
    desk.release(grant.lease);
    desk.submit("m").granted();
}

// [queue-ownership]
#[test]
fn place_in_the_queue_is_free_again_after_a_grant_a_cancel_and_a_timeout() {
    let mut desk = Desk::open(setup().max_queue(1));
    let running = desk.submit("m").granted();
    desk.submit("m").queued();
    desk.release(running.lease);
    let cancelled = desk.submit("m").queued();
    desk.cancel(cancelled);
    desk.submit("m").queued();
    assert_eq!(desk.pass(30).len(), 1);
    desk.submit("m").queued();
}

// [queue-ownership] [refresh-consistency]
#[test]
fn max_queue_lowered_below_the_queue_drops_nobody() {
    let mut desk = Desk::open(setup());
    let running = desk.submit("m").granted();
    let waiting: Vec<_> = (0..5).map(|_| desk.submit("m").queued()).collect();
    assert_eq!(desk.refresh(|setup| setup.max_queue(2)), []);
    assert_eq!(desk.snapshot().queue.length, 5);
    assert_eq!(desk.submit("m").refused(), Refusal::QueueFull { max: 2 });
    assert_eq!(granted(&desk.release(running.lease)), waiting[..1]);
    assert_eq!(desk.submit("m").refused(), Refusal::QueueFull { max: 2 });
}

// [queue-ownership] [refresh-consistency]
#[test]
fn raised_max_queue_lets_the_next_request_wait() {
    let mut desk = Desk::open(setup().max_queue(0));
    desk.submit("m").granted();
    desk.refresh(|setup| setup.max_queue(1));
    desk.submit("m").queued();
}

// [queue-ownership]
#[test]
fn timeout_is_common_to_all_models_and_runs_from_arrival() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    desk.submit("n").granted();
    let first = desk.submit("m").queued();
    desk.wait(10);
    let second = desk.submit("n").queued();
    assert_eq!(desk.pass(20), [timed_out(first, 30)]);
    assert_eq!(desk.pass(9), []);
    assert_eq!(desk.pass(1), [timed_out(second, 30)]);
}

// [queue-ownership]
#[test]
fn timeout_fires_at_the_next_deadline_without_any_other_traffic() {
    let mut desk = Desk::open(setup());
    assert_eq!(desk.next_deadline(), None, "nobody waits");
    desk.submit("m").granted();
    assert_eq!(desk.next_deadline(), None, "a running request has no deadline here");
    let waiting = desk.submit("m").queued();
    assert_eq!(desk.next_deadline(), Some(30 * SEC));
    assert_eq!(desk.pass(30), [timed_out(waiting, 30)]);
    assert_eq!(desk.next_deadline(), None);
}

// [queue-ownership]
#[test]
fn tick_before_the_deadline_ends_nobody() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    desk.submit("m").queued();
    desk.wait(29);
    assert_eq!(desk.apply(iop_edge::admission::Command::Tick), []);
}

// [queue-ownership] [refresh-consistency]
#[test]
fn shorter_timeout_moves_the_deadline_of_those_already_waiting() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    desk.wait(10);
    desk.refresh(|setup| setup.timeout_sec(12));
    assert_eq!(desk.next_deadline(), Some(12 * SEC));
    assert_eq!(desk.pass(1), []);
    assert_eq!(desk.pass(1), [timed_out(waiting, 12)]);
}

// [queue-ownership] [refresh-consistency]
#[test]
fn timeout_shortened_to_less_than_the_wait_so_far_is_due_at_once() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    desk.wait(10);
    desk.refresh(|setup| setup.timeout_sec(5));
    assert_eq!(desk.pass(0), [timed_out(waiting, 5)]);
}

// [queue-ownership] [refresh-consistency]
#[test]
fn longer_timeout_moves_the_deadline_of_those_already_waiting() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    desk.refresh(|setup| setup.timeout_sec(60));
    assert_eq!(desk.pass(59), []);
    assert_eq!(desk.pass(1), [timed_out(waiting, 60)]);
}

// [queue-ownership]
#[test]
fn cancelled_request_neither_times_out_nor_keeps_a_deadline() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    assert_eq!(desk.cancel(waiting), []);
    assert_eq!(desk.next_deadline(), None);
    assert_eq!(desk.cancel(waiting), [], "a second cancel finds nothing");
}

// [queue-ownership]
#[test]
fn timeout_so_long_that_it_overflows_never_fires() {
    let mut desk = Desk::open(setup().timeout_sec(u64::MAX));
    desk.wait(1);
    desk.submit("m").granted();
    desk.submit("m").queued();
    assert_eq!(desk.next_deadline(), Some(Duration::MAX));
    assert_eq!(desk.pass(1_000_000), []);
}
