//! Admission: which request runs on which provider, and when. A pure machine: no IO, clock, async, lock or log; time and
//! ids come in, effects go out. Its driver is `crate::desk`.
//!
//! - A *lease* is the right to run one request on one provider. All models that name the provider share its slots.
//! - Waiting requests stand in one queue by arrival. Those that can run on exactly the same slots form a *class* (same
//!   set of candidates, same need of a long slot, same limited key); only the heads of classes are ever looked at, so a
//!   class that cannot run blocks no other, and a freed slot costs the number of classes of its provider, not the length
//!   of the queue.
//! - Nothing can run that waits: every command that frees or adds a slot hands it out before it returns.

mod aside;
mod command;
mod configure;
mod connectivity;
mod keys;
mod leases;
mod machine;
mod models;
mod providers;
mod queue;
mod snapshot;

pub use command::{
    Api, Command, Config, Context, Effect, Generation, Grant, KeySpec, LeaseId, ModelSpec, Pending, Policy,
    ProviderKey, ProviderSpec, Refusal, Request, Ticket,
};
pub use machine::Machine;
pub use snapshot::{AsideSnapshot, LeaseTotals, ProviderSnapshot, QueueSnapshot, Snapshot};
