//! The whole product in one process, on one thread, in virtual time: an edge, nodes, engines and clients, over a network
//! in memory, with everything that goes wrong drawn from a seed. The same seed does the same again. What the parts of
//! the product do is theirs; here they are only brought together and watched.

mod authority;
mod client;
mod engine;
mod fault;
mod http;
mod network;
mod process;
mod random;
mod request;
mod run;
mod settings;
mod stream;
mod trace;
mod watch;
mod world;

pub use run::{Report, run_seed};
