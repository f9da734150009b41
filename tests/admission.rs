//! Admission by itself: examples of every rule, and the machine held against a naive twin on seeded commands.
//! The product around it (HTTP, nodes, engines) is tested elsewhere.

#[path = "admission/aside.rs"]
mod aside;
#[path = "admission/choice.rs"]
mod choice;
#[path = "admission/connectivity.rs"]
mod connectivity;
#[path = "admission/desk.rs"]
mod desk;
#[path = "admission/keys.rs"]
mod keys;
#[path = "admission/lease.rs"]
mod lease;
#[path = "admission/long.rs"]
mod long;
#[path = "admission/queue.rs"]
mod queue;
#[path = "admission/refresh.rs"]
mod refresh;
#[path = "admission/refusal.rs"]
mod refusal;
#[path = "admission/retry.rs"]
mod retry;
#[path = "admission/seeds.rs"]
mod seeds;
#[path = "admission/snapshot.rs"]
mod snapshot;
#[path = "admission/wakeup.rs"]
mod wakeup;
