//! `cargo run --release -p iop-tests --bin soak -- --minutes N`: the product under mixed load and trouble for so long.
//! Prints figures; the exit code is 1 if anything was not as it must be, 2 for wrong arguments.

mod figures;
mod load;
mod run;
mod seed;
mod site;
mod trouble;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

const USAGE: &str = "usage: soak [--minutes N] [--seed N] [--iop PATH]";

struct Arguments {
    minutes: f64,
    seed: u64,
    iop: Option<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments { minutes: 5.0, seed: 1, iop: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("no value for {word}"))?;
        let bad = || format!("{word} cannot be {value:?}");
        match word.as_str() {
            "--minutes" => arguments.minutes = value.parse().ok().filter(|it| *it > 0.0).ok_or_else(bad)?,
            "--seed" => arguments.seed = value.parse().map_err(|_| bad())?,
            "--iop" => arguments.iop = Some(value.into()),
            _ => return Err(format!("unknown argument {word:?}")),
        }
    }
    Ok(arguments)
}

/// Builds the binary in this program's own profile, and says where it is: beside this program.
fn build() -> Result<PathBuf, String> {
    let cargo =
        std::env::var_os("CARGO").ok_or("start this by `cargo run`, or name the binary with --iop")?;
    let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
    let built =
        Command::new(cargo).args(["build", "--package", "iop", "--bin", "iop"]).args(profile).status();
    match built {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("cargo build: {status}")),
        Err(error) => return Err(format!("cargo build: {error}")),
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.with_file_name("iop"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { minutes, seed, iop } = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let iop = match iop.map_or_else(build, Ok) {
        Ok(iop) => iop,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    println!("soaking for {minutes} minutes, seed {seed}");
    let report = run::run(iop, Duration::from_secs_f64(minutes * 60.0), seed).await;
    report.lines.iter().for_each(|line| println!("{line}"));
    report.violations.iter().for_each(|violation| println!("NOT AS IT MUST BE: {violation}"));
    println!("{} violations", report.violations.len());
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
