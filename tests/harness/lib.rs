//! The harness: one door per boundary for every test of the workspace.
//! It knows iop only by its command line, its files and its sockets; it imports no product crate.

pub mod deadline;
pub mod deployment;
pub mod engine;
pub mod http;
pub mod process;
