//! The configuration in force, as everybody reads it. Putting a new one in force is `refresh`'s work.

use crate::admission::ProviderKey;
use crate::settings::{self, Target};
use iop_config::{EdgeConfig, Node};
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

/// One configuration and what is looked up in it for every request.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The configuration.
    pub(crate) config: EdgeConfig,
    /// How a request for a model is put to a candidate.
    pub(crate) targets: BTreeMap<(Arc<str>, ProviderKey), Target>,
}

/// The configuration in force. Cheap to clone; every clone sees the same.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    settings: Arc<RwLock<Arc<Settings>>>,
}

impl Live {
    /// Puts the first configuration in force.
    pub(crate) fn new(config: EdgeConfig) -> Self {
        Self { settings: Arc::new(RwLock::new(Arc::new(Settings::new(config)))) }
    }

    /// The configuration in force now. A request keeps the one that it began with.
    pub(crate) fn get(&self) -> Arc<Settings> {
        self.settings.read().expect("no code panics while it holds the settings").clone()
    }

    /// Puts another configuration in force.
    pub(crate) fn set(&self, config: EdgeConfig) {
        let settings = Arc::new(Settings::new(config));
        *self.settings.write().expect("no code panics while it holds the settings") = settings;
    }

    /// The node's own part of it.
    pub(crate) fn node(&self, id: &str) -> Option<Node> {
        self.get().config.nodes.iter().find(|node| node.id.as_str() == id).cloned()
    }
}

impl Settings {
    fn new(config: EdgeConfig) -> Self {
        Self { targets: settings::targets(&config), config }
    }
}
