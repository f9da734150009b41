//! Issuing to nodes, one after the other: a fleet that comes at once does not take the machine from its requests. Who may ask
//! is `session`'s and `control`'s business, what is issued that of `iop-certs`.

use super::{Certificates, Issued, Looking, NodeRequest, Own};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Certificates that are issued at a time. Each takes some milliseconds; who waits holds nothing but its request.
const AT_ONCE: usize = 1;

/// Issues to nodes. Cheap to clone; every clone has the same turn.
#[derive(Debug, Clone)]
pub(crate) struct Issuing {
    certificates: Arc<dyn Certificates>,
    own: Own,
    turn: Arc<Semaphore>,
}

impl Issuing {
    pub(crate) fn new(certificates: Arc<dyn Certificates>, own: Own) -> Self {
        Self { certificates, own, turn: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Issues when its turn has come. Nothing waits for it any more when it is dropped.
    pub(crate) fn renew(&self, request: NodeRequest) -> Looking<'static, Issued> {
        let Self { certificates, own, turn } = self.clone();
        Box::pin(async move {
            let _turn = turn.acquire().await.expect("nobody closes it");
            certificates.renew_node(own.identity(), request).await
        })
    }
}
