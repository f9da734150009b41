//! The harness: one door per boundary for every test of the workspace.
//! It knows iop only by its command line, its files and its sockets, and imports no product crate. The exceptions are
//! `admission_model`, the twin of one pure machine, `fuzz`, the doors of what reads a stranger's bytes, and `simulation`,
//! which runs the whole product on one thread.

pub mod admission_model;
pub mod deadline;
pub mod deployment;
pub mod engine;
pub mod fuzz;
pub mod http;
pub mod process;
pub mod simulation;
