//! Memory and file descriptors over time, and what is allowed of them. Linux tells both in /proc.

use std::time::Duration;

/// How much more memory a process may have in the last fifth of a run than in the first fifth after its warm-up, by the
/// medians, in KiB. A leak of 100 bytes a request comes to four times that within an hour.
pub(crate) const DRIFT_KIB: i64 = 6 * 1024;

/// Runs shorter than this are all warm-up: their memory is printed and not judged.
pub(crate) const JUDGED: Duration = Duration::from_secs(4 * 60);

/// How many more file descriptors a process may have at rest after the load than at rest before it: connections to engines
/// that are kept for the next request, and sockets of clients that are just closing.
pub(crate) const DESCRIPTORS: i64 = 16;

/// One look at one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) memory_kib: i64,
    pub(crate) descriptors: i64,
}

impl Sample {
    /// `None` when the process is gone.
    pub(crate) fn of(process: u32, at: Duration) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let memory_kib = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
        Some(Self { at, memory_kib, descriptors: i64::try_from(descriptors).ok()? })
    }
}

/// What the samples of one process come to.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Medians in KiB: the first fifth after the warm-up, and the last fifth.
    pub(crate) early_kib: i64,
    pub(crate) late_kib: i64,
    pub(crate) peak_kib: i64,
    /// Least squares over everything after the warm-up.
    pub(crate) slope_kib_per_hour: i64,
    pub(crate) peak_descriptors: i64,
}

/// The first fifth is warm-up: pools, buffers and tables reach their size.
pub(crate) fn figures(samples: &[Sample]) -> Figures {
    let warm = &samples[samples.len() / 5..];
    let fifth = (samples.len() / 5).max(1);
    let median = |part: &[Sample]| {
        let mut sorted: Vec<i64> = part.iter().map(|sample| sample.memory_kib).collect();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    Figures {
        early_kib: median(&warm[..fifth]),
        late_kib: median(&warm[warm.len() - fifth..]),
        peak_kib: samples.iter().map(|sample| sample.memory_kib).max().unwrap_or_default(),
        slope_kib_per_hour: slope(warm),
        peak_descriptors: samples.iter().map(|sample| sample.descriptors).max().unwrap_or_default(),
    }
}

fn slope(samples: &[Sample]) -> i64 {
    let count = samples.len() as f64;
    let hours = |sample: &Sample| sample.at.as_secs_f64() / 3600.0;
    let mean_time = samples.iter().map(hours).sum::<f64>() / count;
    let mean_memory = samples.iter().map(|sample| sample.memory_kib as f64).sum::<f64>() / count;
    let (mut product, mut square) = (0.0, 0.0);
    for sample in samples {
        let time = hours(sample) - mean_time;
        product += time * (sample.memory_kib as f64 - mean_memory);
        square += time * time;
    }
    if square == 0.0 { 0 } else { (product / square).round() as i64 }
}
