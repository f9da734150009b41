//! The harness: one door per boundary for every test of the workspace.
//! It knows iop only by its command line, its files and its sockets, and imports no product crate; `admission_model`,
//! the twin of one pure machine, is the exception.

pub mod admission_model;
pub mod deadline;
pub mod deployment;
pub mod engine;
pub mod http;
pub mod process;
