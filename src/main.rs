//! The `iop` command.

fn main() {}
