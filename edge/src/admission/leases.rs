//! The table of leases. A lease leaves it once: released, or fenced with its generation.

use super::command::LeaseId;
use super::keys::KeyIndex;
use super::providers::ProviderIndex;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub provider: ProviderIndex,
    pub long: bool,
    pub key: Option<KeyIndex>,
}

/// Leases by number, and how many there ever were.
#[derive(Debug, Default)]
pub(super) struct Leases {
    pub table: BTreeMap<LeaseId, Lease>,
    pub acquired_total: u64,
    pub released_total: u64,
    pub fenced_total: u64,
}

impl Leases {
    /// Numbers and enters a lease.
    pub(super) fn acquire(&mut self, lease: Lease) -> LeaseId {
        self.acquired_total += 1;
        let id = LeaseId(self.acquired_total);
        self.table.insert(id, lease);
        id
    }

    /// Removes a lease; `None` if it is gone already.
    pub(super) fn release(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.table.remove(&id)?;
        self.released_total += 1;
        Some(lease)
    }

    /// Removes every lease of these providers.
    pub(super) fn fence(&mut self, providers: &[ProviderIndex]) -> Vec<Lease> {
        let fenced: Vec<Lease> = self
            .table
            .extract_if(.., |_, lease| providers.contains(&lease.provider))
            .map(|(_, lease)| lease)
            .collect();
        self.fenced_total += fenced.len() as u64;
        fenced
    }
}
