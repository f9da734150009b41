//! The control stream of a welcomed connection: settings in, confirmations out, one message at a time; now and then a request
//! for a new certificate.

use super::register::{broken, close_reason};
use super::renewing::Renewing;
use crate::diagnosis::Problem;
use crate::providers::Providers;
use iop_transport::session::{ControlRecv, ControlSend};
use iop_transport::wire::{Apply, EdgeMessage, NodeMessage};
use iop_transport::{Connection, endpoint};

/// The stream's both halves, and what its messages change.
pub(super) struct Control<'a> {
    pub(super) connection: &'a Connection,
    pub(super) send: &'a mut ControlSend<NodeMessage>,
    pub(super) recv: &'a mut ControlRecv<EdgeMessage>,
    pub(super) providers: &'a Providers,
    pub(super) renewing: Renewing<'a>,
}

impl Control<'_> {
    /// Obeys until the stream or the connection ends.
    pub(super) async fn run(mut self) -> Problem {
        loop {
            let message = tokio::select! {
                biased;
                message = self.recv.recv() => message,
                csr = self.renewing.next() => {
                    if let Err(detail) = self.answer(&NodeMessage::Renew { csr }).await {
                        return ended(self.connection, &detail).await;
                    }
                    continue;
                }
            };
            let obeyed = match message {
                Ok(Some(EdgeMessage::Apply(apply))) => self.apply(&apply).await,
                Ok(Some(EdgeMessage::Ping { nonce })) => self.answer(&NodeMessage::Pong { nonce }).await,
                Ok(Some(EdgeMessage::Drain)) => {
                    // For people only: a run that was granted before may still be on its way, and is welcome.
                    tracing::info!("the edge drains this node: it grants no further run here");
                    Ok(())
                }
                Ok(Some(EdgeMessage::Renewed { chain })) => self.renewing.renewed(&chain),
                Ok(Some(EdgeMessage::RenewalRefused { reason })) => self.renewing.refused(&reason),
                Ok(Some(EdgeMessage::Welcome(_))) => return broken(self.connection, "a second Welcome"),
                Ok(None) => Err("the control stream was ended".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(detail) = obeyed {
                return ended(self.connection, &detail).await;
            }
        }
    }

    /// Puts the providers in force and confirms them. The stream limit is raised before the edge learns that it may use
    /// the capacity.
    pub(super) async fn apply(&mut self, apply: &Apply) -> Result<(), String> {
        let applied = self.providers.apply(apply);
        endpoint::resize(self.connection, self.providers.total_capacity());
        self.answer(&NodeMessage::Applied(applied)).await
    }

    async fn answer(&mut self, message: &NodeMessage) -> Result<(), String> {
        self.send.send(message).await.map_err(|error| error.to_string())
    }
}

/// The problem behind a control stream that is of no use any more.
pub(super) async fn ended(connection: &Connection, detail: &str) -> Problem {
    match close_reason(connection).await {
        Some(reason) => Problem::after_welcome(&reason),
        None => broken(connection, detail),
    }
}
