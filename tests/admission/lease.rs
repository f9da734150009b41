//! One state per provider, one lease per run, returned exactly once. SPEC A [provider-state] [lease-lifecycle].

use super::desk::{Desk, granted, grants};
use iop_edge::admission::LeaseId;
use iop_tests::admission_model::{Setup, slots};

fn two_aliases() -> Setup {
    let setup = Setup::new().provider("gpu-a/llama", slots(1));
    setup.model("ornith:35b", &["gpu-a/llama"]).model("ornith-fast", &["gpu-a/llama"])
}

// [provider-state]
#[test]
fn second_alias_waits_while_the_only_slot_is_busy() {
    let mut desk = Desk::open(two_aliases());
    let first = desk.submit("ornith:35b").granted();
    let second = desk.submit("ornith-fast").queued();
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 1);
    assert_eq!(granted(&desk.release(first.lease)), [second]);
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 1);
}

// [provider-state]
#[test]
fn providers_of_the_same_id_on_two_nodes_are_two_providers() {
    let setup = Setup::new().provider("gpu-a/llama", slots(1)).provider("gpu-b/llama", slots(1));
    let mut desk = Desk::open(setup.model("m", &["gpu-a/llama"]).model("n", &["gpu-b/llama"]));
    desk.submit("m").granted();
    desk.submit("n").granted();
    desk.submit("n").queued();
}

// [lease-lifecycle]
#[test]
fn every_lease_has_its_own_number() {
    let mut desk = Desk::open(two_aliases());
    let mut numbers = Vec::new();
    for _ in 0..50 {
        let grant = desk.submit("ornith:35b").granted();
        numbers.push(grant.lease);
        assert_eq!(desk.release(grant.lease), []);
    }
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

// [lease-lifecycle]
#[test]
fn second_release_of_a_lease_frees_nothing() {
    let mut desk = Desk::open(two_aliases());
    let first = desk.submit("ornith:35b").granted();
    let second = desk.submit("ornith:35b").queued();
    desk.submit("ornith:35b").queued();
    assert_eq!(granted(&desk.release(first.lease)), [second]);
    assert_eq!(desk.release(first.lease), [], "the slot now belongs to the second");
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 1);
    assert_eq!(desk.snapshot().leases.released_total, 1);
}

// [lease-lifecycle]
#[test]
fn second_release_on_an_idle_provider_does_not_go_below_zero() {
    let mut desk = Desk::open(two_aliases());
    let grant = desk.submit("ornith:35b").granted();
    for _ in 0..3 {
        assert_eq!(desk.release(grant.lease), []);
    }
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 0);
    desk.submit("ornith:35b").granted();
    desk.submit("ornith:35b").queued();
}

// [lease-lifecycle]
#[test]
fn release_of_a_lease_that_never_was_has_no_effect() {
    let mut desk = Desk::open(two_aliases());
    desk.submit("ornith:35b").granted();
    assert_eq!(desk.release(LeaseId(77)), []);
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 1);
}

// [lease-lifecycle] [disconnect-exclusion]
#[test]
fn late_release_of_a_fenced_lease_has_no_effect_on_the_new_generation() {
    let mut desk = Desk::open(two_aliases());
    let old = desk.submit("ornith:35b").granted();
    desk.offline("gpu-a");
    desk.connect("gpu-a");
    let new = desk.submit("ornith:35b").granted();
    let waiting = desk.submit("ornith-fast").queued();
    assert_eq!(desk.release(old.lease), []);
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 1);
    assert_eq!(granted(&desk.release(new.lease)), [waiting]);
    let leases = desk.snapshot().leases;
    assert_eq!(
        (leases.acquired_total, leases.released_total, leases.fenced_total, leases.active),
        (3, 1, 1, 1)
    );
}

// [lease-lifecycle]
#[test]
fn cancel_of_a_granted_request_leaves_its_lease_to_the_end_of_the_run() {
    let mut desk = Desk::open(two_aliases());
    let grant = desk.submit("ornith:35b").granted();
    assert_eq!(desk.cancel(grant.pending.ticket), []);
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 1);
    desk.submit("ornith:35b").queued();
}

// [lease-lifecycle]
#[test]
fn slot_is_never_freed_by_age() {
    let mut desk = Desk::open(two_aliases().timeout_sec(1_000_000));
    desk.submit("ornith:35b").granted();
    desk.submit("ornith:35b").queued();
    assert_eq!(desk.pass(900_000), []);
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 1);
}

// [lease-lifecycle]
#[test]
fn all_leases_come_back_after_fifty_requests_in_arrival_order() {
    let mut desk = Desk::open(two_aliases());
    let first = desk.submit("ornith:35b").granted();
    let aliases = ["ornith:35b", "ornith-fast"].into_iter().cycle();
    let mut waiting: Vec<_> = aliases.take(49).map(|alias| desk.submit(alias).queued()).collect();
    let mut running = first;
    let mut order = Vec::new();
    loop {
        let next = grants(&desk.release(running.lease));
        assert!(next.len() <= 1, "one slot, one grant: {next:?}");
        let Some(grant) = next.into_iter().next() else { break };
        order.push(grant.pending.ticket);
        running = grant;
    }
    waiting.sort();
    assert_eq!(order, waiting);
    assert_eq!(desk.provider("gpu-a/llama").in_flight, 0);
    assert_eq!(desk.snapshot().leases.active, 0);
}
