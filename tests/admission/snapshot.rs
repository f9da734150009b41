//! What the operations snapshot shows. SPEC B [snapshot-source] and C [offline-snapshot].

use super::desk::Desk;
use iop_edge::admission::ProviderSpec;
use iop_tests::admission_model::{Setup, ask, long_slots, slots};
use std::time::Duration;

fn setup() -> Setup {
    let setup = Setup::new().provider("a/x", long_slots(2, 1)).provider("b/y", slots(1));
    setup.model("m", &["a/x", "b/y"]).model("x", &["a/x"]).model("y", &["b/y"])
}

// [snapshot-source]
#[test]
fn in_flight_of_a_provider_is_its_lease_count() {
    let mut desk = Desk::open(setup());
    let normal = desk.submit("x").granted();
    desk.submit(ask("x").long()).granted();
    let provider = desk.provider("a/x");
    assert_eq!((provider.in_flight, provider.long_in_flight), (2, 1));
    desk.release(normal.lease);
    let provider = desk.provider("a/x");
    assert_eq!((provider.in_flight, provider.long_in_flight), (1, 1));
}

// [snapshot-source]
#[test]
fn queued_of_a_provider_is_candidate_pressure_and_sums_to_more_than_the_queue() {
    let mut desk = Desk::open(setup().provider("a/x", long_slots(1, 1)));
    desk.submit("x").granted();
    desk.submit("y").granted();
    for model in ["m", "m", "x", "y"] {
        desk.submit(model).queued();
    }
    assert_eq!(desk.provider("a/x").queued, 3);
    assert_eq!(desk.provider("b/y").queued, 3);
    assert_eq!(desk.snapshot().queue.length, 4);
}

// [snapshot-source] [long-state]
#[test]
fn long_queued_counts_long_requests_on_providers_with_long_slots_only() {
    let mut desk = Desk::open(setup().provider("a/x", long_slots(1, 1)));
    desk.submit("x").granted();
    desk.submit("y").granted();
    desk.submit(ask("m").long()).queued();
    desk.submit("m").queued();
    assert_eq!((desk.provider("a/x").queued, desk.provider("a/x").long_queued), (2, 1));
    assert_eq!((desk.provider("b/y").queued, desk.provider("b/y").long_queued), (1, 0));
}

// [snapshot-source]
#[test]
fn queue_shows_its_limits_and_when_its_oldest_arrived() {
    let mut desk = Desk::open(setup().max_queue(7).timeout_sec(9));
    desk.submit("y").granted();
    assert_eq!(desk.snapshot().queue.oldest_arrived, None);
    desk.wait(3);
    desk.submit("y").queued();
    desk.wait(1);
    desk.submit("y").queued();
    let queue = desk.snapshot().queue;
    assert_eq!((queue.length, queue.max, queue.timeout), (2, 7, Duration::from_secs(9)));
    assert_eq!(queue.oldest_arrived, Some(Duration::from_secs(3)));
}

// [snapshot-source]
#[test]
fn every_command_moves_the_revision() {
    let mut desk = Desk::open(setup());
    let before = desk.snapshot().revision;
    let grant = desk.submit("y").granted();
    desk.release(grant.lease);
    assert_eq!(desk.snapshot().revision, before + 2);
}

// [snapshot-source] [lease-lifecycle]
#[test]
fn acquired_is_released_and_fenced_and_active_together() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("x").granted();
    desk.submit("x").granted();
    desk.submit("y").granted();
    desk.release(first.lease);
    desk.offline("a");
    let leases = desk.snapshot().leases;
    assert_eq!(
        (leases.acquired_total, leases.released_total, leases.fenced_total, leases.active),
        (3, 1, 1, 1)
    );
}

// [offline-snapshot]
#[test]
fn configured_node_that_is_not_connected_stays_with_zero_capacity_and_counters() {
    let mut desk = Desk::open(setup());
    desk.submit(ask("x").long()).granted();
    desk.submit("y").granted();
    desk.submit("m").granted();
    desk.submit("m").queued();
    desk.offline("a");
    let provider = desk.provider("a/x");
    assert_eq!((provider.connected, provider.live, provider.effective_capacity), (false, false, 0));
    assert_eq!((provider.in_flight, provider.long_in_flight), (0, 0));
    assert_eq!((provider.queued, provider.long_queued), (0, 0));
    assert_eq!((provider.capacity, provider.long_capacity, provider.enabled), (2, 1, true), "as configured");
}

// [offline-snapshot]
#[test]
fn node_that_never_connected_is_shown_like_one_that_left() {
    let desk = Desk::closed(setup());
    let provider = desk.provider("b/y");
    assert_eq!((provider.connected, provider.live, provider.effective_capacity), (false, false, 0));
}

// [offline-snapshot]
#[test]
fn reconnect_brings_the_same_identity_back_as_available() {
    let mut desk = Desk::open(setup());
    let before = desk.provider("a/x");
    desk.offline("a");
    desk.connect("a");
    assert_eq!(desk.provider("a/x"), before);
}

// [snapshot-source]
#[test]
fn disabled_provider_shows_its_leases_and_no_pressure() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    desk.refresh(|setup| setup.provider("a/x", ProviderSpec { enabled: false, ..long_slots(2, 1) }));
    let provider = desk.provider("a/x");
    assert_eq!((provider.connected, provider.enabled, provider.live), (true, false, false));
    assert_eq!((provider.in_flight, provider.effective_capacity, provider.queued), (1, 0, 0));
}

// [snapshot-source]
#[test]
fn provider_that_its_node_will_not_run_is_shown_so() {
    let mut desk = Desk::open(setup());
    desk.applied("a", &[("x", None)]);
    let provider = desk.provider("a/x");
    assert_eq!((provider.connected, provider.refused, provider.live), (true, true, false));
    assert_eq!(provider.effective_capacity, 0);
}
