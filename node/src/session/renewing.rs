//! Renewing the node's certificate over one connection: a new key, a request, the edge's answer, the file replaced. Whatever goes
//! wrong, the connection goes on with the certificate that it has. When to ask is decided in `renewal`.

use crate::dial::IdentitySource;
use crate::renewal::{Life, Plan};
use bytes::Bytes;
use iop_certs::{Identity, NodeId, RenewalRequest, Utc};
use iop_transport::session::printable;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// How often it is asked whether the certificate is to be renewed. Timers stand still while a machine sleeps, and clocks are
/// set.
const LOOK: Duration = Duration::from_secs(60);

/// How long the edge may take before somebody should know. It answers nodes one after the other.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What renewals have in common, over all connections of a process.
pub(crate) struct Renewals {
    source: Arc<dyn IdentitySource>,
    plan: Plan,
}

impl Renewals {
    pub(crate) fn new(source: Arc<dyn IdentitySource>, instance: [u8; 16]) -> Self {
        Self { source, plan: Plan::new(instance) }
    }
}

type Doing<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// A request that can be sent, and what it is to replace.
type Prepared = (RenewalRequest, Identity);

/// Where the renewal of one connection's certificate is.
enum Work {
    Waiting(Instant),
    Preparing(Doing<Prepared>),
    /// Until the answer is here; `Some` until its absence was said.
    Asked(Box<Prepared>, Option<Instant>),
    Storing(Doing<Identity>),
}

/// The renewal over one connection.
pub(super) struct Renewing<'a> {
    renewals: &'a mut Renewals,
    node: &'a NodeId,
    /// Of the newest certificate that is known.
    life: Life,
    work: Work,
}

impl<'a> Renewing<'a> {
    pub(super) fn new(renewals: &'a mut Renewals, node: &'a NodeId, life: Life) -> Self {
        Self { renewals, node, life, work: Work::Waiting(Instant::now()) }
    }

    /// The next request that the edge should get. Cancel-safe.
    pub(super) async fn next(&mut self) -> Bytes {
        loop {
            let next = match &mut self.work {
                Work::Waiting(until) => {
                    sleep_until(*until).await;
                    self.look()
                }
                Work::Preparing(preparing) => match preparing.await {
                    Ok(prepared) => match self.prepared(prepared) {
                        Some((work, csr)) => {
                            self.work = work;
                            return csr;
                        }
                        None => Work::waiting(),
                    },
                    Err(error) => failed(&error),
                },
                Work::Asked(_, None) => pending().await,
                Work::Asked(_, late @ Some(_)) => {
                    sleep_until(late.unwrap_or_else(Instant::now)).await;
                    tracing::warn!("the edge does not answer this node's request for a new certificate");
                    *late = None;
                    continue;
                }
                Work::Storing(storing) => match storing.await {
                    Ok(identity) => self.stored(&identity),
                    Err(error) => failed(&error),
                },
            };
            self.work = next;
        }
    }

    /// The edge has answered with a certificate.
    pub(super) fn renewed(&mut self, chain: &[Bytes]) -> Result<(), String> {
        let (request, old) = self.take_asked()?;
        let chain = chain.iter().map(|certificate| certificate.to_vec().into()).collect::<Vec<_>>();
        let source = Arc::clone(&self.renewals.source);
        self.work = Work::Storing(Box::pin(async move {
            let checked = old.clone();
            let complete = move || request.complete(&checked, &chain, iop_certs::now());
            let renewed =
                spawn_blocking(complete).await.map_err(|_panicked| "it cannot be read".to_owned())?;
            let renewed = renewed.map_err(|error| error.to_string())?;
            let identity = renewed.identity().clone();
            source.replace(old, renewed).await?;
            Ok(identity)
        }));
        Ok(())
    }

    /// The edge has answered that there is no certificate.
    pub(super) fn refused(&mut self, reason: &str) -> Result<(), String> {
        self.take_asked()?;
        self.work = failed(&format!("the edge refuses it: {}", printable(reason)));
        Ok(())
    }

    fn take_asked(&mut self) -> Result<Prepared, String> {
        match std::mem::replace(&mut self.work, Work::waiting()) {
            Work::Asked(prepared, _) => Ok(*prepared),
            work => {
                self.work = work;
                Err("an answer about a certificate that was not asked for".to_owned())
            }
        }
    }

    fn look(&mut self) -> Work {
        let now = iop_certs::now();
        if !self.renewals.plan.is_due(self.life, now) {
            return Work::waiting();
        }
        self.renewals.plan.ask(self.life, now);
        let source = Arc::clone(&self.renewals.source);
        Work::Preparing(Box::pin(async move {
            let old = source.load().await.map_err(|error| error.to_string())?;
            let made = spawn_blocking(RenewalRequest::new).await.expect("making a key does not panic");
            Ok((made.map_err(|error| error.to_string())?, old))
        }))
    }

    /// What is asked for the file as it is now; nothing if somebody has put another certificate there that is not due.
    fn prepared(&mut self, (request, old): Prepared) -> Option<(Work, Bytes)> {
        let found = Life { not_before: old.not_before, not_after: old.not_after };
        if found != self.life || old.node.as_ref() != Some(self.node) {
            self.life = found;
            tracing::debug!("the certificate file has changed; the next dial uses it as it is");
            return None;
        }
        let csr = Bytes::copy_from_slice(request.csr());
        let late = Instant::now() + ANSWER_TIMEOUT;
        Some((Work::Asked(Box::new((request, old)), Some(late)), csr))
    }

    fn stored(&mut self, identity: &Identity) -> Work {
        self.life = Life { not_before: identity.not_before, not_after: identity.not_after };
        tracing::info!(
            serial = identity.serial,
            not_after = %Utc(identity.not_after),
            "renewed this node's certificate; the next dial uses it"
        );
        Work::waiting()
    }
}

impl Work {
    fn waiting() -> Self {
        Self::Waiting(Instant::now() + LOOK)
    }
}

fn failed(error: &str) -> Work {
    tracing::warn!(
        error,
        "this node's certificate is not renewed; the one in use stays, and the node asks again a day later"
    );
    Work::waiting()
}
