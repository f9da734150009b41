//! The runs of one connection: a task each, and an end that is awaited. What a run does is decided elsewhere.

use crate::providers::Providers;
use iop_transport::tunnel::{HeadError, NodeRun};
use iop_transport::{Connection, ConnectionError};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tracing::Instrument;

/// How long runs whose connection is gone may take to close their upstream connections before they are aborted.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// The tasks of one connection's runs. Their number is bounded by the connection's stream limit.
pub(super) struct Runs {
    providers: Arc<Providers>,
    generation: u64,
    tasks: JoinSet<()>,
}

impl Runs {
    pub(super) fn new(providers: Arc<Providers>, generation: u64) -> Self {
        Self { providers, generation, tasks: JoinSet::new() }
    }

    /// Takes runs until the connection ends.
    pub(super) async fn accept(&mut self, connection: &Connection) -> ConnectionError {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => report(ended),
                stream = connection.accept_bi() => match stream {
                    Ok((send, recv)) => self.start(NodeRun::accept(send, recv)),
                    Err(error) => return error,
                },
            }
        }
    }

    fn start(&mut self, head: impl Future<Output = Result<NodeRun, HeadError>> + Send + 'static) {
        let (providers, generation) = (Arc::clone(&self.providers), self.generation);
        let task = async move {
            match head.await {
                Ok(run) => providers.serve(run, generation).await,
                // The edge may cancel a run before its head has arrived.
                Err(error) => tracing::debug!(%error, "a run without a head"),
            }
        };
        self.tasks.spawn(task.in_current_span());
    }

    /// Waits until every run has ended; the connection is gone, so they do so by themselves, or are aborted.
    pub(super) async fn end(mut self) {
        let by_themselves = async {
            while let Some(ended) = self.tasks.join_next().await {
                report(ended);
            }
        };
        if timeout(END_TIMEOUT, by_themselves).await.is_err() {
            tracing::warn!(
                runs = self.tasks.len(),
                timeout_ms = END_TIMEOUT.as_millis(),
                "runs did not end with their connection; aborting them"
            );
            self.tasks.shutdown().await;
        }
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a run's task failed; its answer was broken off");
    }
}
