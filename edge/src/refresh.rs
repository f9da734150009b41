//! Puts a changed configuration file in force: one path for the file's change, a signal and the admin listener. Parse,
//! validate, difference, apply; a file that does not validate changes nothing.

use crate::desk::Desk;
use crate::events::{Event, Events};
use crate::live::Live;
use crate::registry::Registry;
use crate::settings;
use iop_config::{Change, EdgeConfig, LoadError, MAX_FILE_BYTES, NodeId, difference};
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::Read;
use std::path::PathBuf;
use std::pin::Pin;
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

/// The bytes of a configuration, still to come; `None` where they cannot be read.
pub type Reading<'a> = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + 'a>>;

/// A configuration, still to come.
pub type Loading<'a> = Pin<Box<dyn Future<Output = Result<EdgeConfig, LoadError>> + Send + 'a>>;

/// Where the configuration comes from, again and again.
pub trait ConfigSource: fmt::Debug + Send + Sync {
    /// For people.
    fn name(&self) -> String;

    /// What is there now.
    fn read(&self) -> Reading<'_>;

    /// The configuration in what was read, even if something else is there by now.
    fn load(&self, read: Option<Vec<u8>>) -> Loading<'_>;
}

/// A file, read through whatever links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile(pub PathBuf);

/// Refreshes one edge. Cheap to clone; every clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct Refresher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Arc<dyn ConfigSource>,
    /// What the edge started with: what differs from it and cannot change while it runs needs a restart.
    started_with: EdgeConfig,
    live: Live,
    desk: Desk,
    registry: Registry,
    events: Events,
    state: Mutex<ConfigState>,
    /// One refresh at a time. Holds what the file was when it was last read to be put in force; `None` before that, and
    /// where it could not be read.
    turn: tokio::sync::Mutex<Option<Vec<u8>>>,
}

impl Refresher {
    pub(crate) fn new(
        source: Arc<dyn ConfigSource>,
        started_with: EdgeConfig,
        live: Live,
        desk: Desk,
        registry: Registry,
        events: Events,
    ) -> Self {
        let state = Mutex::new(ConfigState { revision: 1, source: source.name(), last_error: None });
        let turn = tokio::sync::Mutex::default();
        Self { inner: Arc::new(Inner { source, started_with, live, desk, registry, events, state, turn }) }
    }

    /// The configuration in force, for the snapshot.
    pub(crate) fn state(&self) -> ConfigState {
        self.lock().clone()
    }

    /// Reads the file and puts it in force, or only says what would change.
    pub(crate) async fn refresh(&self, dry_run: bool) -> Result<Report, LoadError> {
        let mut last_read = self.inner.turn.lock().await;
        let read = self.inner.source.read().await;
        let loaded = self.inner.source.load(read.clone()).await;
        if dry_run {
            return Ok(self.report(&loaded?));
        }
        // Noted when nothing is waited for any more: who asked may go away, and then the next look is to find it new.
        *last_read = read;
        self.put_in_force(loaded)
    }

    /// Refreshes whenever the file has changed or `asked` is notified. Runs until dropped.
    pub(crate) async fn watch(&self, asked: &Notify) {
        let mut last_seen = None;
        loop {
            tokio::select! {
                biased;
                () = asked.notified() => {
                    // The outcome is logged and in the snapshot.
                    let _outcome = self.refresh(false).await;
                }
                () = tokio::time::sleep(LOOK_INTERVAL) => {
                    let seen = self.inner.source.read().await;
                    // A file that is missing is being replaced.
                    if seen.is_some() && seen == last_seen {
                        self.look_at(&seen).await;
                    }
                    last_seen = seen;
                }
            }
        }
    }

    /// Puts this content of the file in force if it is another than the last that was read.
    async fn look_at(&self, seen: &Option<Vec<u8>>) {
        let mut last_read = self.inner.turn.lock().await;
        if *last_read != *seen {
            let loaded = self.inner.source.load(seen.clone()).await;
            last_read.clone_from(seen);
            let _outcome = self.put_in_force(loaded);
        }
    }

    fn put_in_force(&self, loaded: Result<EdgeConfig, LoadError>) -> Result<Report, LoadError> {
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

    fn report(&self, new: &EdgeConfig) -> Report {
        let settings = self.inner.live.get();
        let changes = difference(&settings.config, new);
        let connected = self.inner.registry.all();
        // A node that is taken out gets nothing any more.
        let stays = |id: &NodeId| new.nodes.iter().any(|node| node.id == *id);
        let waiting =
            changes.nodes().into_iter().filter(|id| stays(id) && !connected.contains_key(id.as_str()));
        Report {
            config_revision: self.lock().revision,
            waiting_for_nodes: waiting.map(ToString::to_string).collect(),
            needs_restart: difference(&self.inner.started_with, new).restart,
            applied: changes.live,
        }
    }

    fn apply(&self, config: EdgeConfig) -> Report {
        let mut report = self.report(&config);
        let old = self.inner.live.get();
        if old.config == config {
            self.confirm(&report);
            return report;
        }
        let changes = difference(&old.config, &config);
        let admission = settings::admission(&config);
        let told: Vec<String> = changes.nodes().into_iter().map(ToString::to_string).collect();
        // Admission comes first: from then on it grants nothing that the new settings have no place for, and whoever reads
        // them to tell a node (see `told`) finds the leases that are left over.
        self.inner.desk.configure(admission);
        self.inner.live.set(config);
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

    /// The file says what is in force already. That is news only after a file that did not.
    fn confirm(&self, report: &Report) {
        if self.lock().last_error.take().is_some() {
            info!("the configuration file says what is in force");
            self.inner.events.tell(|| Event::ConfigApplied { config_revision: report.config_revision });
        }
    }

    fn lock(&self) -> MutexGuard<'_, ConfigState> {
        self.inner.state.lock().expect("no code panics while it holds this state")
    }
}

impl ConfigSource for ConfigFile {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    /// A file that is too large is cut where that shows.
    fn read(&self) -> Reading<'_> {
        let path = self.0.clone();
        let read = move || {
            let mut bytes = Vec::new();
            let limit = MAX_FILE_BYTES as u64 + 1;
            File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        };
        Box::pin(async { tokio::task::spawn_blocking(read).await.expect("reading a file does not panic") })
    }

    fn load(&self, read: Option<Vec<u8>>) -> Loading<'_> {
        let path = self.0.clone();
        let load = move || match read.as_deref().map(std::str::from_utf8) {
            Some(Ok(text)) if text.len() <= MAX_FILE_BYTES => {
                Ok(EdgeConfig::parse(text, &path, &|name| std::env::var(name).ok())?)
            }
            // Why it is no text of a configuration is the loader's to say.
            _ => EdgeConfig::load(&path),
        };
        let loaded = tokio::task::spawn_blocking(load);
        Box::pin(async { loaded.await.expect("reading a configuration does not panic") })
    }
}
