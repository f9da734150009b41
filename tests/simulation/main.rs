//! `simulate`: runs seeds of the simulation and prints what came of them. The last line is a count.

use iop_tests::simulation::{Report, run_seed};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tracing_subscriber::EnvFilter;

const USAGE: &str =
    "usage: simulate --seeds N [--first-seed S] [--threads T] [--first-failure] | --seed S [--log]";

/// What is asked for.
struct Arguments {
    first: u64,
    count: u64,
    threads: u64,
    /// Show what happens.
    lines: bool,
    /// The product's own log, as RUST_LOG says, with what happens between its lines.
    log: bool,
    /// Begin no seed after one that failed.
    first_failure: bool,
}

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)) {
        Some(arguments) => run(&arguments),
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments =
        Arguments { first: 0, count: 0, threads: 1, lines: false, log: false, first_failure: false };
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse::<u64>().ok();
        match word.as_str() {
            "--seed" => {
                arguments.first = number()?;
                (arguments.count, arguments.lines) = (1, true);
            }
            "--seeds" => arguments.count = number()?,
            "--first-seed" => arguments.first = number()?,
            "--threads" => arguments.threads = number()?.max(1),
            "--log" => arguments.log = true,
            "--first-failure" => arguments.first_failure = true,
            _ => return None,
        }
    }
    (arguments.count > 0).then_some(arguments)
}

fn run(arguments: &Arguments) -> ExitCode {
    if arguments.log {
        tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).without_time().init();
    }
    let begun = Instant::now();
    let next = AtomicU64::new(arguments.first);
    let end = arguments.first + arguments.count;
    let totals = Mutex::new((BTreeMap::<String, u64>::new(), Vec::<u64>::new()));
    let (begun_seeds, failures) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || (arguments.first_failure && failures.load(Ordering::Relaxed) > 0) {
                return;
            }
            begun_seeds.fetch_add(1, Ordering::Relaxed);
            let report = run_seed(seed);
            let mut totals = totals.lock().expect("printing does not panic");
            show(&report, arguments.lines && !arguments.log);
            for (what, count) in report.counts {
                *totals.0.entry(what).or_default() += count;
            }
            if !report.violations.is_empty() {
                totals.1.push(seed);
                failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(work);
        }
    });
    let (counts, failed) = totals.into_inner().expect("printing does not panic");
    for (what, count) in counts {
        println!("{count:>12}  {what}");
    }
    let run = begun_seeds.into_inner();
    let seconds = begun.elapsed().as_secs_f64();
    println!("{:.1} s, {:.1} seeds/s", seconds, run as f64 / seconds);
    println!("{} seeds passed, {} failed", run - failed.len() as u64, failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(report: &Report, lines: bool) {
    if lines {
        report.lines.iter().for_each(|line| println!("{line}"));
        println!("hash {:016x}", report.hash);
    }
    for violation in &report.violations {
        println!("seed {}: {violation}", report.seed);
    }
    if !report.violations.is_empty() {
        println!("FAILED seed {} (--seed {} runs it alone)", report.seed, report.seed);
    }
}
