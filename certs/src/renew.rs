//! Renewing: when it is due, and a new certificate in the place of one that is in use. Whoever trusts the old one trusts the
//! new one, or nothing is written.

mod node;
mod request;

use std::path::Path;

use rustls::pki_types::CertificateDer;

use crate::authority::{Authority, AuthorityError, EDGE_BUNDLE};
use crate::certificate::Validity;
use crate::identity::Role;
use crate::issue::{BACKDATED_SECONDS, IssueReport, San};
use crate::load::{Identity, LoadError, chain};
use crate::store;

pub use node::renew_node;
pub use request::{RenewalError, RenewalRequest, RenewedBundle};

/// Whether a certificate should be renewed: a third of its life is over. What is left is time for everything that can go
/// wrong with a renewal.
pub fn is_renewal_due(not_before: i64, not_after: i64, now: i64) -> bool {
    let life = not_after.saturating_sub(not_before);
    now >= not_before.saturating_add(life / 3)
}

/// Issues the edge's certificate again from the authority in `dir`, into edge.pem there, for as long a life as `old` has had.
/// `now` is in seconds since 1970.
pub fn renew_edge(dir: &Path, old: &Identity, now: i64) -> Result<IssueReport, AuthorityError> {
    let authority = Authority::load_here(dir)?;
    authority.check_deployment(&old.deployment)?;
    let validity = Validity { not_before: old.not_before, not_after: old.not_after };
    let valid = authority.longer_than(validity, now)?;
    let path = dir.join(EDGE_BUNDLE);
    let name = San::Dns(authority.edge_name().to_owned());
    let leaf = authority.leaf(&path, Role::Edge, name, valid, now)?;
    authority.check_trusted(&leaf.identity.chain[0], Role::Edge, &old.roots, now)?;
    let replaced = store::replace(&path, &leaf.text)?;
    Ok(IssueReport { path, replaced, not_after: valid.not_after, serial: leaf.identity.serial })
}

impl Authority {
    /// Loads the authority in `dir`, where there may well be none.
    fn load_here(dir: &Path) -> Result<Self, AuthorityError> {
        Self::load(dir).map_err(|error| match error {
            AuthorityError::Load(LoadError::NotFound { path }) => AuthorityError::Elsewhere { path },
            other => other,
        })
    }

    fn check_deployment(&self, expected: &str) -> Result<(), AuthorityError> {
        if self.edge_name() == expected {
            return Ok(());
        }
        let (found, expected) = (self.edge_name().to_owned(), expected.to_owned());
        Err(AuthorityError::OtherDeployment { dir: self.dir.clone(), found, expected })
    }

    /// For a certificate with as long a life as this one has had; it must gain something.
    fn longer_than(&self, old: Validity, now: i64) -> Result<Validity, AuthorityError> {
        let life = old.not_after.saturating_sub(old.not_before.saturating_add(BACKDATED_SECONDS));
        let valid = self.leaf_validity(life, now)?;
        if valid.not_after > old.not_after {
            return Ok(valid);
        }
        let authority = self.valid.not_after;
        Err(AuthorityError::NothingGained { new: valid.not_after, old: old.not_after, authority })
    }

    /// Whether those who trust these roots trust the new leaf.
    fn check_trusted(
        &self,
        leaf: &CertificateDer<'static>,
        role: Role,
        roots: &[CertificateDer<'static>],
        now: i64,
    ) -> Result<(), AuthorityError> {
        let issuing = std::slice::from_ref(&self.issuing);
        chain::verify(leaf, issuing, roots, role, &self.deployment, now)
            .map_err(|_untrusted| AuthorityError::OtherRoot { dir: self.dir.clone() })
    }
}
