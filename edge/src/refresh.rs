//! Puts a changed configuration file in force: one path for the file's change, a signal and the admin listener. Parse,
//! validate, difference, apply; a file that does not validate changes nothing.

use crate::desk::Desk;
use crate::events::{Event, Events};
use crate::live::Live;
use crate::registry::Registry;
use crate::settings;
use iop_config::{Change, EdgeConfig, LoadError, difference};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{info, warn};

/// How often the file is looked at. A change counts when two looks in a row see the same, so a file that is being written
/// is left alone until it is whole.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What the configuration in force is, for the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ConfigState {
    /// 1 for the configuration that the edge started with; grows with each one put in force.
    pub(crate) revision: u64,
    /// The file.
    pub(crate) source: String,
    /// Why the file as it was last read is not in force; `None` if it is.
    pub(crate) last_error: Option<String>,
}

/// What a refresh did, or would do.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The configuration's revision after it.
    config_revision: u64,
    /// What is in force now.
    applied: Vec<Change>,
    /// Nodes among these changes that are not connected: they get their part when they connect.
    waiting_for_nodes: Vec<String>,
    /// What takes effect when the edge starts the next time.
    needs_restart: Vec<Change>,
}

/// Refreshes one edge. Cheap to clone; every clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct Refresher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// What the edge started with: what differs from it and cannot change while it runs needs a restart.
    started_with: EdgeConfig,
    live: Live,
    desk: Desk,
    registry: Registry,
    events: Events,
    state: Mutex<ConfigState>,
    /// One refresh at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Refresher {
    pub(crate) fn new(
        path: PathBuf,
        started_with: EdgeConfig,
        live: Live,
        desk: Desk,
        registry: Registry,
        events: Events,
    ) -> Self {
        let state =
            Mutex::new(ConfigState { revision: 1, source: path.display().to_string(), last_error: None });
        let turn = tokio::sync::Mutex::default();
        Self { inner: Arc::new(Inner { path, started_with, live, desk, registry, events, state, turn }) }
    }

    /// The configuration in force, for the snapshot.
    pub(crate) fn state(&self) -> ConfigState {
        self.lock().clone()
    }

    /// Reads the file and puts it in force, or only says what would change.
    pub(crate) async fn refresh(&self, dry_run: bool) -> Result<Report, LoadError> {
        let _turn = self.inner.turn.lock().await;
        let path = self.inner.path.clone();
        let loaded = tokio::task::spawn_blocking(move || EdgeConfig::load(&path)).await;
        let loaded = loaded.expect("reading a configuration does not panic");
        if dry_run {
            return Ok(self.report(&loaded?));
        }
        match loaded {
            Ok(config) => Ok(self.apply(config)),
            Err(error) => {
                warn!(%error, "the configuration file is not in force");
                let errors = if let LoadError::Invalid(issues) = &error { issues.total() } else { 1 };
                self.lock().last_error = Some(error.to_string());
                self.inner.events.tell(|| Event::ConfigRefused { errors });
                Err(error)
            }
        }
    }

    /// Refreshes whenever the file has changed or `asked` is notified. Runs until dropped.
    pub(crate) async fn watch(&self, asked: &Notify) {
        let mut in_force = read(&self.inner.path).await;
        let mut last_seen = in_force.clone();
        loop {
            tokio::select! {
                () = asked.notified() => {
                    in_force = read(&self.inner.path).await;
                    // The outcome is logged and in the snapshot.
                    let _outcome = self.refresh(false).await;
                }
                () = tokio::time::sleep(LOOK_INTERVAL) => {
                    let seen = read(&self.inner.path).await;
                    // A file that is missing is being replaced.
                    let settled = seen.is_some() && seen == last_seen;
                    if settled && seen != in_force {
                        in_force = seen.clone();
                        let _outcome = self.refresh(false).await;
                    }
                    last_seen = seen;
                }
            }
        }
    }

    fn report(&self, new: &EdgeConfig) -> Report {
        let settings = self.inner.live.get();
        let changes = difference(&settings.config, new);
        let connected = self.inner.registry.all();
        let waiting = changes
            .nodes()
            .into_iter()
            .map(ToString::to_string)
            .filter(|node| !connected.contains_key(&**node));
        Report {
            config_revision: self.lock().revision,
            waiting_for_nodes: waiting.collect(),
            needs_restart: difference(&self.inner.started_with, new).restart,
            applied: changes.live,
        }
    }

    fn apply(&self, config: EdgeConfig) -> Report {
        let mut report = self.report(&config);
        let changes = difference(&self.inner.live.get().config, &config);
        let admission = settings::admission(&config);
        let told: Vec<String> = changes.nodes().into_iter().map(ToString::to_string).collect();
        // Nodes read what they are told from the settings in force, so these come first. Admission counts a lowered
        // capacity at once and a raised one when its node has confirmed it.
        self.inner.live.set(config);
        self.inner.desk.configure(admission);
        let registered = self.inner.registry.all();
        for node in told.iter().filter_map(|node| registered.get(&**node)) {
            node.settings_changed.notify_one();
        }
        for change in &report.applied {
            info!(%change, "configuration changed");
        }
        for change in &report.needs_restart {
            warn!(%change, "a changed setting needs a restart");
        }
        report.config_revision = {
            let mut state = self.lock();
            state.last_error = None;
            state.revision += 1;
            state.revision
        };
        self.inner.events.tell(|| Event::ConfigApplied { config_revision: report.config_revision });
        report
    }

    fn lock(&self) -> MutexGuard<'_, ConfigState> {
        self.inner.state.lock().expect("no code panics while it holds this state")
    }
}

/// The file's bytes, through whatever links; `None` while there is none. Larger than any configuration is as good as
/// none.
async fn read(path: &Path) -> Option<Vec<u8>> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let length = std::fs::metadata(&path).ok()?.len();
        (length <= iop_config::MAX_FILE_BYTES as u64).then(|| std::fs::read(&path).ok()).flatten()
    });
    read.await.expect("reading a file does not panic")
}
