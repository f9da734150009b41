//! The harness: one door per boundary for every test of the workspace.
