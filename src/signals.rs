//! The ways in which a person or a system asks the process to stop.

use crate::failure::Failure;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A token that is cancelled at the first such signal. The second one ends the process at once.
pub(crate) fn stop() -> Result<CancellationToken, Failure> {
    let token = CancellationToken::new();
    let mut signals =
        Signals::new().map_err(|error| Failure::other(format!("cannot listen to signals: {error}")))?;
    let stop = token.clone();
    tokio::spawn(async move {
        let name = signals.next().await;
        tracing::info!(signal = name, "stopping; a second signal stops at once");
        stop.cancel();
        signals.next().await;
        std::process::exit(130);
    });
    Ok(token)
}

/// Notified at every request of the system to read the configuration again (SIGHUP). Never on Windows.
pub(crate) fn refresh() -> Result<Arc<Notify>, Failure> {
    let asked = Arc::new(Notify::new());
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangup = signal(SignalKind::hangup())
            .map_err(|error| Failure::other(format!("cannot listen to signals: {error}")))?;
        let asked = asked.clone();
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                asked.notify_one();
            }
        });
    }
    Ok(asked)
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupt",
            _ = self.terminate.recv() => "terminate",
        }
    }
}

#[cfg(windows)]
struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    close: tokio::signal::windows::CtrlClose,
    logoff: tokio::signal::windows::CtrlLogoff,
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::windows::{ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown};
        Ok(Self {
            interrupt: ctrl_c()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupt",
            _ = self.close.recv() => "close",
            _ = self.logoff.recv() => "logoff",
            _ = self.shutdown.recv() => "shutdown",
        }
    }
}
