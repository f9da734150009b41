//! What operators see and change while the product runs: queue policy, long requests, refresh, keys, bounds, memory, events,
//! snapshot, all through processes of the built binary. The rules of admission by themselves are tested in `admission`.

#[path = "operations/aside.rs"]
mod aside;
#[path = "operations/bounds.rs"]
mod bounds;
#[path = "operations/clients.rs"]
mod clients;
#[path = "operations/connections.rs"]
mod connections;
#[path = "operations/contract.rs"]
mod contract;
#[path = "operations/drain.rs"]
mod drain;
#[path = "operations/events.rs"]
mod events;
#[path = "operations/file.rs"]
mod file;
#[path = "operations/keys.rs"]
mod keys;
#[path = "operations/lab.rs"]
mod lab;
#[path = "operations/long.rs"]
mod long;
#[path = "operations/memory.rs"]
mod memory;
#[path = "operations/operators.rs"]
mod operators;
#[path = "operations/queue.rs"]
mod queue;
#[path = "operations/refresh.rs"]
mod refresh;
#[path = "operations/refused.rs"]
mod refused;
#[path = "operations/report.rs"]
mod report;
#[path = "operations/snapshot.rs"]
mod snapshot;
#[path = "operations/subscriber.rs"]
mod subscriber;
