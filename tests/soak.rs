//! The soak, short: `IOP_SOAK_MINUTES` makes it longer. The program of the same name runs it by itself; see its README.md.

#[path = "soak/figures.rs"]
mod figures;
#[path = "soak/load.rs"]
mod load;
#[path = "soak/run.rs"]
mod run;
#[path = "soak/seed.rs"]
mod seed;
#[path = "soak/site.rs"]
mod site;
#[path = "soak/trouble.rs"]
mod trouble;

use std::time::Duration;

/// About two rounds of every kind of trouble.
const SHORT: Duration = Duration::from_secs(20);

// [lease-lifecycle] [refresh-consistency] [disconnect-exclusion]
#[tokio::test]
async fn mixed_load_through_every_kind_of_trouble_leaves_no_lease_and_no_wrong_byte() {
    let minutes = std::env::var("IOP_SOAK_MINUTES").ok();
    let duration = minutes.map_or(SHORT, |minutes| {
        Duration::from_secs_f64(minutes.parse::<f64>().expect("IOP_SOAK_MINUTES is a number") * 60.0)
    });
    let report = run::run(env!("CARGO_BIN_EXE_iop").into(), duration, 1).await;
    println!("{}", report.lines.join("\n"));
    assert!(report.violations.is_empty(), "{}\n{:#?}", report.lines.join("\n"), report.violations);
}
