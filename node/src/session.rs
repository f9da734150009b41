//! One connection, from Hello to its end: providers are put in force, then runs are taken, and none outlives it. It
//! neither dials nor decides what follows its end.

mod control;
mod register;
mod renewing;
mod runs;

pub(crate) use register::{Registered, Registration, register};
pub(crate) use renewing::Renewals;

use crate::Welcomed;
use crate::diagnosis::{Diagnosis, Problem};
use crate::providers::Providers;
use control::{Control, ended};
use iop_transport::codes::CloseCode;
use renewing::Renewing;
use runs::Runs;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How far apart the clocks may be before somebody should know: certificates begin ten minutes in the past.
const CLOCK_TOLERANCE_SEC: u64 = 60;

/// How long the edge may take to let the confirmation of the first settings through.
const APPLIED_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a welcomed connection until it is lost (then why) or `shutdown` (then `None`). When this returns, every run has
/// ended and the connection is closed.
pub(crate) async fn serve(
    registered: Registered,
    providers: &Arc<Providers>,
    renewals: &mut Renewals,
    shutdown: &CancellationToken,
    on_welcome: &mut (dyn FnMut(Welcomed) + Send),
) -> Option<Diagnosis> {
    let Registered { mut registration, node, life, address, shown } = registered;
    let generation = registration.welcome.generation;
    let connection = registration.connection.clone();
    let mut runs = Runs::new(Arc::clone(providers), generation);
    let renewing = Renewing::new(renewals, &node, life);
    let welcomed = || on_welcome(Welcomed { node_id: node.to_string(), edge: address, generation });
    let problem = tokio::select! {
        biased;
        problem = live(&mut registration, providers, renewing, &mut runs, welcomed) => Some(problem),
        () = shutdown.cancelled() => None,
    };
    if problem.is_none() {
        iop_transport::close(&connection, CloseCode::NodeShutdown, b"the node is shutting down");
    }
    runs.end().await;
    problem.map(|problem| Diagnosis::of(problem, &shown))
}

async fn live(
    registration: &mut Registration,
    providers: &Arc<Providers>,
    renewing: Renewing<'_>,
    runs: &mut Runs,
    welcomed: impl FnOnce(),
) -> Problem {
    let Registration { connection, send, recv, welcome } = registration;
    compare_clocks(welcome.edge_time_ms);
    let mut control = Control { connection, send, recv, providers, renewing };
    match timeout(APPLIED_TIMEOUT, control.apply(&welcome.apply)).await {
        Ok(Ok(())) => welcomed(),
        Ok(Err(detail)) => return ended(connection, &detail).await,
        Err(_elapsed) => {
            return ended(connection, "no room for the confirmation of the first settings").await;
        }
    }
    tokio::select! {
        biased;
        problem = control.run() => problem,
        error = runs.accept(connection) => Problem::after_welcome(&error),
    }
}

/// Certificates are judged by both clocks, and a wrong one is hard to find.
fn compare_clocks(edge_time_ms: u64) {
    let edge_sec = i64::try_from(edge_time_ms / 1000).unwrap_or(i64::MAX);
    let here_sec = iop_certs::now();
    if here_sec.abs_diff(edge_sec) > CLOCK_TOLERANCE_SEC {
        tracing::warn!(
            ahead_sec = here_sec.saturating_sub(edge_sec),
            "this machine's clock and the edge's are apart: is one of them wrong?"
        );
    }
}
