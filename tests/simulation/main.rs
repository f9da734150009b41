//! `simulate`: runs seeds of the simulation and prints what came of them. The last line is a count.

use iop_tests::simulation::{Report, run_seed};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;

const USAGE: &str =
    "usage: simulate --seeds N [--first-seed S] [--threads T] [--first-failure] | --seed S [--log]";

/// Longest real time of one seed, which takes a fraction of a second: beyond it something waits for itself.
const SEED_LIMIT: Duration = Duration::from_secs(120);

/// How often it is looked whether a seed takes too long.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

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

/// What a thread tells.
enum News {
    Begun(u64),
    Ended(Report),
}

/// What all seeds came to.
#[derive(Default)]
struct Totals {
    counts: BTreeMap<String, u64>,
    passed: u64,
    failed: u64,
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
    let stop = AtomicBool::new(false);
    let totals = std::thread::scope(|scope| {
        let (sender, news) = mpsc::channel();
        for _ in 0..arguments.threads {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || work(next, end, stop, &sender));
        }
        drop(sender);
        listen(arguments, &stop, &news)
    });
    let Totals { counts, passed, failed } = totals;
    for (what, count) in counts {
        println!("{count:>12}  {what}");
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{seconds:.1} s, {:.1} seeds/s", (passed + failed) as f64 / seconds);
    println!("{passed} seeds passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One thread's share of the seeds. An error means that nobody listens any more.
fn work(next: &AtomicU64, end: u64, stop: &AtomicBool, sender: &Sender<News>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let over = seed >= end || stop.load(Ordering::Relaxed) || sender.send(News::Begun(seed)).is_err();
        if over || sender.send(News::Ended(run_seed(seed))).is_err() {
            return;
        }
    }
}

fn listen(arguments: &Arguments, stop: &AtomicBool, news: &Receiver<News>) -> Totals {
    let mut totals = Totals::default();
    let mut running = BTreeMap::new();
    loop {
        match news.recv_timeout(LOOK_INTERVAL) {
            Ok(News::Begun(seed)) => {
                running.insert(seed, Instant::now());
            }
            Ok(News::Ended(report)) => {
                running.remove(&report.seed);
                show(&report, arguments.lines && !arguments.log);
                if report.violations.is_empty() {
                    totals.passed += 1;
                } else {
                    totals.failed += 1;
                    stop.fetch_or(arguments.first_failure, Ordering::Relaxed);
                }
                for (what, count) in report.counts {
                    *totals.counts.entry(what).or_default() += count;
                }
            }
            Err(RecvTimeoutError::Timeout) => end_if_stuck(&running, &totals),
            Err(RecvTimeoutError::Disconnected) => return totals,
        }
    }
}

/// A thread that hangs cannot be ended but with the process.
fn end_if_stuck(running: &BTreeMap<u64, Instant>, totals: &Totals) {
    let stuck: Vec<u64> =
        running.iter().filter(|(_, begun)| begun.elapsed() > SEED_LIMIT).map(|(seed, _)| *seed).collect();
    for seed in &stuck {
        println!("seed {seed}: it hangs, for more than {} s of real time", SEED_LIMIT.as_secs());
        println!("FAILED seed {seed} (--seed {seed} runs it alone)");
    }
    if !stuck.is_empty() {
        println!("{} seeds passed, {} failed", totals.passed, totals.failed + stuck.len() as u64);
        std::process::exit(1);
    }
}

fn show(report: &Report, lines: bool) {
    let seed = report.seed;
    if lines {
        report.lines.iter().for_each(|line| println!("{line}"));
        println!("hash {:016x}", report.hash);
    }
    for violation in &report.violations {
        println!("seed {seed}: {violation}");
    }
    if !report.violations.is_empty() {
        println!("FAILED seed {seed} (--seed {seed} runs it alone)");
    }
}
