//! Nodes come and go. SPEC C, the part that is admission's: [disconnect-exclusion] [disconnect-queue-resolution]
//! [reconnect-candidate-recovery].

use super::desk::{Desk, ended, granted, grants, place};
use iop_edge::admission::{Command, Generation, Refusal};
use iop_tests::admission_model::{Setup, ask, slots};

fn setup() -> Setup {
    let setup = Setup::new().provider("a/x", slots(1)).provider("b/y", slots(1));
    setup.model("m", &["a/x", "b/y"]).model("x", &["a/x"]).model("y", &["b/y"])
}

fn offline(node: &str, generation: u64) -> Command {
    Command::NodeOffline { node: node.into(), generation: Generation(generation) }
}

fn online(node: &str, generation: u64) -> Command {
    Command::NodeOnline { node: node.into(), generation: Generation(generation) }
}

// [disconnect-exclusion]
#[test]
fn disconnect_takes_the_nodes_providers_out_and_fences_their_leases_at_once() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    assert_eq!(desk.offline("a"), []);
    let provider = desk.provider("a/x");
    assert_eq!((provider.connected, provider.live, provider.in_flight), (false, false, 0));
    let leases = desk.snapshot().leases;
    assert_eq!((leases.active, leases.fenced_total), (0, 1));
    assert_eq!(desk.submit("x").refused(), Refusal::Unavailable);
    assert_eq!(place(&desk.submit("m").granted()), "b/y");
}

// [disconnect-exclusion]
#[test]
fn close_of_a_stale_generation_changes_nothing() {
    let mut desk = Desk::open(setup());
    desk.offline("a");
    desk.connect("a");
    desk.submit("x").granted();
    assert_eq!(desk.generation("a"), Generation(2));
    for stale in [0, 1, 3] {
        assert_eq!(desk.apply(offline("a", stale)), []);
    }
    let provider = desk.provider("a/x");
    assert_eq!((provider.connected, provider.in_flight), (true, 1));
}

// [disconnect-exclusion]
#[test]
fn second_close_of_the_same_generation_changes_nothing() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    desk.offline("a");
    assert_eq!(desk.offline("a"), []);
    assert_eq!(desk.snapshot().leases.fenced_total, 1);
}

// [disconnect-exclusion]
#[test]
fn disconnect_leaves_other_nodes_alone() {
    let mut desk = Desk::open(setup());
    desk.submit("y").granted();
    desk.offline("a");
    assert_eq!(desk.provider("b/y").in_flight, 1);
    assert_eq!(desk.snapshot().leases.fenced_total, 0);
}

// [disconnect-exclusion]
#[test]
fn grant_carries_the_generation_that_owns_the_provider() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("x").granted();
    desk.connect("a");
    let second = desk.submit("x").granted();
    assert_eq!((first.generation, second.generation), (Generation(1), Generation(2)));
}

// [disconnect-exclusion]
#[test]
fn new_registration_fences_the_old_generation_although_its_close_never_came() {
    let mut desk = Desk::open(setup());
    let old = desk.submit("x").granted();
    desk.online("a");
    assert_eq!(desk.provider("a/x").in_flight, 0);
    assert_eq!(desk.release(old.lease), []);
    assert_eq!(desk.apply(offline("a", 1)), [], "the old connection's close comes late");
    assert!(desk.provider("a/x").connected);
}

// [disconnect-exclusion]
#[test]
fn registration_under_an_old_generation_changes_nothing() {
    let mut desk = Desk::open(setup());
    desk.offline("a");
    desk.connect("a");
    desk.submit("x").granted();
    for stale in [0, 1, 2] {
        assert_eq!(desk.apply(online("a", stale)), []);
    }
    assert_eq!((desk.provider("a/x").in_flight, desk.provider("a/x").effective_capacity), (1, 1));
}

// [disconnect-exclusion]
#[test]
fn no_lease_is_given_on_a_generation_that_has_confirmed_nothing() {
    let mut desk = Desk::open(setup());
    desk.offline("a");
    desk.online("a");
    assert_eq!(
        desk.provider("a/x").effective_capacity,
        0,
        "what the last generation confirmed counts no more"
    );
    desk.submit("x").queued();
}

// [disconnect-queue-resolution]
#[test]
fn waiting_request_that_loses_its_last_candidate_ends_now() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    let waiting = desk.submit("x").queued();
    assert_eq!(desk.offline("a"), [ended(waiting, Refusal::Unavailable)]);
    assert_eq!(desk.next_deadline(), None);
}

// [disconnect-queue-resolution]
#[test]
fn waiting_request_keeps_waiting_for_the_live_candidate_that_is_left() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    let on_y = desk.submit("y").granted();
    let waiting = desk.submit("m").queued();
    assert_eq!(desk.offline("a"), []);
    assert_eq!(granted(&desk.release(on_y.lease)), [waiting]);
}

// [disconnect-queue-resolution]
#[test]
fn each_waiting_request_is_resolved_by_its_own_candidates() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    desk.submit("y").granted();
    let ends = [desk.submit("x").queued(), desk.submit("x").queued()];
    let stays = desk.submit("m").queued();
    desk.submit("y").queued();
    let expected = ends.map(|ticket| ended(ticket, Refusal::Unavailable));
    assert_eq!(desk.offline("a"), expected);
    assert_eq!(desk.snapshot().queue.length, 2);
    assert_eq!(desk.cancel(stays), []);
}

// [disconnect-queue-resolution]
#[test]
fn waiting_request_of_a_key_at_its_limit_ends_with_its_last_candidate_too() {
    let mut desk = Desk::open(setup().key("alice", Some(1), None));
    desk.submit(ask("y").key("alice")).granted();
    let waiting = desk.submit(ask("x").key("alice")).queued();
    assert_eq!(desk.offline("a"), [ended(waiting, Refusal::Unavailable)]);
}

// [disconnect-queue-resolution]
#[test]
fn waiting_request_whose_provider_the_node_will_not_run_ends_now() {
    let mut desk = Desk::open(setup());
    desk.submit("x").granted();
    let waiting = desk.submit("x").queued();
    assert_eq!(desk.applied("a", &[("x", None)]), [ended(waiting, Refusal::Unavailable)]);
}

// [reconnect-candidate-recovery]
#[test]
fn reconnect_wakes_waiting_requests_by_itself() {
    let mut desk = Desk::open(setup());
    desk.submit("y").granted();
    desk.offline("a");
    let waiting = desk.submit("m").queued();
    assert_eq!(desk.online("a"), [], "nothing is confirmed yet");
    let grant = grants(&desk.applied_all("a")).remove(0);
    assert_eq!((grant.pending.ticket, grant.generation), (waiting, Generation(2)));
}

// [reconnect-candidate-recovery]
#[test]
fn request_may_wait_for_a_node_between_its_registration_and_its_first_confirmation() {
    let mut desk = Desk::closed(setup());
    desk.online("a");
    let waiting: Vec<_> = (0..2).map(|_| desk.submit("x").queued()).collect();
    assert_eq!(granted(&desk.applied_all("a")), waiting[..1]);
}

// [reconnect-candidate-recovery]
#[test]
fn stale_confirmation_wakes_nobody() {
    let mut desk = Desk::open(setup());
    desk.offline("a");
    desk.online("a");
    let waiting = desk.submit("x").queued();
    let stale = Command::Applied {
        node: "a".into(),
        generation: Generation(1),
        providers: vec![("x".into(), Some(1))],
    };
    assert_eq!(desk.apply(stale), []);
    assert_eq!(granted(&desk.applied_all("a")), [waiting]);
}

// [reconnect-candidate-recovery]
#[test]
fn confirmation_after_the_connection_was_lost_wakes_nobody() {
    let mut desk = Desk::open(setup());
    desk.offline("a");
    assert_eq!(desk.applied_all("a"), []);
    assert_eq!(desk.provider("a/x").effective_capacity, 0);
    assert_eq!(desk.submit("x").refused(), Refusal::Unavailable);
}

// [reconnect-candidate-recovery]
#[test]
fn rejected_registration_wakes_nobody() {
    let mut desk = Desk::open(setup());
    desk.offline("a");
    desk.submit("y").granted();
    desk.submit("m").queued();
    assert_eq!(desk.apply(online("a", 1)), [], "this generation has ended");
    assert!(!desk.provider("a/x").connected);
}

// [reconnect-candidate-recovery]
#[test]
fn reconnect_forgets_that_the_node_would_not_run_a_provider() {
    let mut desk = Desk::open(setup());
    desk.applied("a", &[("x", None)]);
    desk.connect("a");
    desk.submit("x").granted();
}
