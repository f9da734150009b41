//! The node's providers: what the edge last applied, as far as this node allows it. The table outlives connections, and
//! a gate outlives its provider's settings: runs that are still closing keep counting. Nothing is decided about runs.

use crate::adapter::{Adapter, AdapterSettings, EnvLookup, Unusable};
use crate::execution;
use crate::permit::{RetiredGate, SharedGate};
use crate::upstream::{Connector, Trust};
use iop_config::EndpointPattern;
use iop_transport::session::printable;
use iop_transport::tunnel::NodeRun;
use iop_transport::wire::{Applied, Apply, ProviderSettings, RefusalReason, RefusedProvider};
use rustls::pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::Instrument;

/// The table of providers.
pub struct Providers {
    connector: Arc<dyn Connector>,
    trust: Trust,
    allow_endpoints: Vec<EndpointPattern>,
    env: EnvLookup,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    providers: BTreeMap<String, Arc<Provider>>,
    /// Gates of providers that are gone while runs of theirs still close.
    retired: BTreeMap<String, RetiredGate>,
}

/// One provider in force.
pub(crate) struct Provider {
    pub(crate) id: String,
    pub(crate) gate: SharedGate,
    pub(crate) adapter: Adapter,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("allow_endpoints", &self.allow_endpoints).finish_non_exhaustive()
    }
}

impl Providers {
    /// An empty table. `connector` reaches inference servers, `allow_endpoints` says which ones may be reached at all,
    /// `env` finds their keys.
    pub fn new(
        connector: Arc<dyn Connector>,
        allow_endpoints: Vec<EndpointPattern>,
        env: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let (trust, env) = (Trust::system(), Box::new(env));
        Self { connector, trust, allow_endpoints, env, table: Mutex::default() }
    }

    /// The same, with `roots` to check https servers by, in place of the system's.
    pub fn with_roots(self, roots: Vec<CertificateDer<'static>>) -> Self {
        Self { trust: Trust::only(roots), ..self }
    }

    /// Puts the edge's list in force in place of the last one. Runs in flight end by themselves; an unchanged provider
    /// keeps its connections, and every provider that stays keeps its gate.
    pub fn apply(&self, apply: &Apply) -> Applied {
        let mut refused = Vec::new();
        let mut table = self.lock();
        let mut old = std::mem::take(&mut table.providers);
        table.retired.retain(|_, gate| !gate.is_gone());
        for settings in &apply.providers {
            let id = &settings.id;
            if table.providers.contains_key(id) {
                refused.push(RefusedProvider { id: id.clone(), reason: "the id is used twice".into() });
                continue;
            }
            match self.provider(settings, &mut table.retired, &mut old) {
                Ok(provider) => {
                    table.providers.insert(id.clone(), provider);
                }
                Err(reason) => {
                    tracing::warn!(provider = printable(id), %reason, "a provider is refused");
                    let reason = printable(&reason.to_string());
                    refused.push(RefusedProvider { id: id.clone(), reason });
                }
            }
        }
        for (id, provider) in old {
            table.retired.insert(id, provider.gate.retire());
        }
        tracing::info!(
            revision = apply.revision,
            providers = table.providers.len(),
            refused = refused.len(),
            "providers applied"
        );
        Applied { revision: apply.revision, refused }
    }

    /// Runs at once that all providers together may have.
    pub fn total_capacity(&self) -> u32 {
        let table = self.lock();
        table.providers.values().fold(0, |sum, provider| sum.saturating_add(provider.gate.capacity()))
    }

    /// Executes one run to its end. `generation` is the one that the run's connection owns. Dropping the future aborts
    /// the run: its upstream connection is closed, then its place in the gate is free, then its stream is reset.
    pub async fn serve(&self, run: NodeRun, generation: u64) {
        let span =
            tracing::info_span!("run", lease = run.head.lease, provider = printable(&run.head.provider));
        self.execute(run, generation).instrument(span).await;
    }

    async fn execute(&self, run: NodeRun, generation: u64) {
        if run.head.generation != generation {
            let detail = format!(
                "the run is of generation {}, this connection owns {generation}",
                run.head.generation
            );
            tracing::warn!(detail, "a run of another generation");
            return execution::refuse(run, RefusalReason::StaleGeneration, &detail).await;
        }
        let provider = self.lock().providers.get(&run.head.provider).cloned();
        match provider {
            Some(provider) => execution::execute(&provider, run).await,
            None => {
                let detail = format!("this node runs no provider {}", printable(&run.head.provider));
                execution::refuse(run, RefusalReason::UnknownProvider, &detail).await;
            }
        }
    }

    /// The provider for these settings: the old one if only its capacity may differ, else a new one behind the old gate.
    fn provider(
        &self,
        settings: &ProviderSettings,
        retired: &mut BTreeMap<String, RetiredGate>,
        old: &mut BTreeMap<String, Arc<Provider>>,
    ) -> Result<Arc<Provider>, Unusable> {
        let ProviderSettings { id, capacity, .. } = settings;
        let adapter = AdapterSettings::check(settings, &self.allow_endpoints, &self.env)?;
        if let Some(same) = old.get(id)
            && same.adapter.is_made_from(&adapter)
        {
            same.gate.set_capacity(*capacity);
            same.adapter.set_capacity(*capacity);
            return Ok(old.remove(id).expect("it was there just now"));
        }
        let adapter = Adapter::new(adapter, &self.connector, &self.trust, *capacity)?;
        let gate = match (old.remove(id), retired.remove(id).and_then(|gate| gate.revive())) {
            (Some(old), _) => old.gate.clone(),
            (None, Some(gate)) => gate,
            (None, None) => SharedGate::new(*capacity),
        };
        gate.set_capacity(*capacity);
        Ok(Arc::new(Provider { id: id.clone(), gate, adapter }))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
