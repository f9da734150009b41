//! The `iop` command: arguments to configuration, configuration to a running edge or node, and the exit code.

mod arguments;
mod certs;
mod check;
mod demo;
mod edge;
mod failure;
mod logging;
mod node;
mod signals;
mod smoke;
mod status;

use arguments::{Arguments, Command, ConfigCommand};
use clap::Parser;
use failure::Failure;
use std::future::Future;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    logging::start();
    let outcome = match command {
        Command::Demo(options) => block_on(demo::run(options)),
        Command::Edge { config } => block_on(edge::run(config)),
        Command::Node { config } => block_on(node::run(config)),
        Command::Certs { command } => certs::run(command).map(|()| ExitCode::SUCCESS),
        Command::Config { command: ConfigCommand::Check { file } } => {
            check::run(&file).map(|()| ExitCode::SUCCESS)
        }
        Command::Status(options) => block_on(status::run(options)),
    };
    outcome.unwrap_or_else(|failure: Failure| {
        eprintln!("{failure}");
        failure.code()
    })
}

/// One thread owns sockets, QUIC and admission: a hop between threads costs more than the work it carries.
fn block_on(task: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::other(format!("the runtime cannot start: {error}")))?;
    let outcome = runtime.block_on(task);
    // A name that is still being resolved must not hold up the exit.
    runtime.shutdown_background();
    outcome
}
