//! Issuing leaves: what goes into an edge's and a node's certificate, and their files. Keys are made here and go
//! nowhere but into the file.

use std::path::{Path, PathBuf};

use rcgen::{
    Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::authority::{Authority, AuthorityError, EDGE_BUNDLE, ISSUING_CERTIFICATE, ROOT_CERTIFICATE};
use crate::bundle::{self, Contents};
use crate::certificate::Validity;
use crate::identity::Role;
use crate::load::{self, Identity};
use crate::node_id::NodeId;
use crate::revocations::Revocations;
use crate::{random, store};

/// Days for which a leaf is good when nothing else is asked for. The edge is the only one that relies on node
/// certificates and can refuse one at once, and a machine may sleep for weeks.
pub const DEFAULT_LEAF_DAYS: u32 = 90;

/// Certificates begin this long before they are made, so that a peer whose clock is behind takes them.
pub(crate) const BACKDATED_SECONDS: i64 = 10 * 60;

pub(crate) const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The years 2020 to 9900. Before: a machine without a battery-backed clock, just started. After: X.509 cannot
/// express the end of a certificate's life.
const BELIEVABLE: std::ops::Range<i64> = 1_577_836_800..250_246_627_200;

/// What issuing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueReport {
    /// The file: key, leaf, issuing CA and roots.
    pub path: PathBuf,
    /// Whether it took the place of an older file.
    pub replaced: bool,
    /// Last second at which the leaf is good, in seconds since 1970. Earlier than asked for where the issuing CA ends.
    pub not_after: i64,
    /// The leaf's serial number, by which it can be revoked alone.
    pub serial: String,
}

/// Issues a certificate for a node from the authority in `dir`, into `<node>.pem` there. `now` is in seconds since
/// 1970.
pub fn issue_node(dir: &Path, node: &NodeId, days: u32, now: i64) -> Result<IssueReport, AuthorityError> {
    Authority::load(dir)?.issue_node(node, days, now)
}

/// Issues the edge's certificate again from the authority in `dir`, into edge.pem there. `now` is in seconds since
/// 1970.
pub fn issue_edge(dir: &Path, days: u32, now: i64) -> Result<IssueReport, AuthorityError> {
    Authority::load(dir)?.issue_edge(days, now)
}

impl Authority {
    /// Issues a certificate for a node, into `<node>.pem` in the authority's folder.
    pub fn issue_node(&self, node: &NodeId, days: u32, now: i64) -> Result<IssueReport, AuthorityError> {
        let file = format!("{node}.pem");
        if [ROOT_CERTIFICATE, ISSUING_CERTIFICATE, EDGE_BUNDLE].contains(&file.as_str()) {
            return Err(AuthorityError::ReservedNodeId { node: node.clone() });
        }
        let uri = self.deployment.node_uri(node);
        let revocations = Revocations::load(&self.dir)?.unwrap_or_default();
        let valid = not_revoked(self.leaf_validity(seconds(days), now)?, node, &revocations, now)?;
        self.issue(&file, Role::Node, San::Uri(uri), valid, now)
    }

    /// Issues the edge's certificate, into edge.pem in the authority's folder.
    pub fn issue_edge(&self, days: u32, now: i64) -> Result<IssueReport, AuthorityError> {
        let name = self.deployment.as_str().to_owned();
        let valid = self.leaf_validity(seconds(days), now)?;
        self.issue(EDGE_BUNDLE, Role::Edge, San::Dns(name), valid, now)
    }

    fn issue(
        &self,
        file: &str,
        role: Role,
        san: San,
        valid: Validity,
        now: i64,
    ) -> Result<IssueReport, AuthorityError> {
        let path = self.dir.join(file);
        let leaf = self.leaf(&path, role, san, valid, now)?;
        let replaced = store::replace(&path, &leaf.text)?;
        Ok(IssueReport { path, replaced, not_after: valid.not_after, serial: leaf.identity.serial })
    }

    /// Makes a leaf and its file's text, and loads the text as its user will, before anything is written.
    pub(crate) fn leaf(
        &self,
        path: &Path,
        role: Role,
        san: San,
        valid: Validity,
        now: i64,
    ) -> Result<Leaf, AuthorityError> {
        let key = new_key()?;
        let certificate = self.sign(&key, role, san, valid)?;
        let others = std::iter::once(&self.issuing).chain(&self.roots);
        let text = bundle::with_key(key.serialized_der(), std::iter::once(certificate.der()).chain(others));

        let contents = Contents::parse(text.as_bytes())
            .map_err(|what| load::LoadError::Malformed { path: path.to_owned(), what: what.to_owned() })?;
        let identity =
            load::check(path, contents, role, now).map_err(|reason| AuthorityError::Unusable { reason })?;
        Ok(Leaf { text, identity })
    }

    /// A leaf for whoever has the private part of this key.
    pub(crate) fn sign(
        &self,
        key: &impl PublicKeyData,
        role: Role,
        san: San,
        valid: Validity,
    ) -> Result<Certificate, AuthorityError> {
        let mut params = params(&role.to_string(), valid, san)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match role {
            Role::Edge => ExtendedKeyUsagePurpose::ServerAuth,
            Role::Node => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.signed_by(key, &self.issuer).map_err(|reason| make_error("a certificate", reason))
    }

    /// For a leaf that is good for `life` seconds, or until the issuing CA ends.
    pub(crate) fn leaf_validity(&self, life: i64, now: i64) -> Result<Validity, AuthorityError> {
        let path = || self.dir.join(ISSUING_CERTIFICATE);
        let Validity { not_before, not_after } = self.valid;
        let valid = validity(life, now)?;
        if now > not_after {
            return Err(AuthorityError::Expired { path: path(), not_after, now });
        }
        if now < not_before {
            return Err(AuthorityError::NotYetValid { path: path(), not_before, now });
        }
        Ok(Validity {
            not_before: valid.not_before.max(not_before),
            not_after: valid.not_after.min(not_after),
        })
    }
}

/// A leaf's file.
pub(crate) struct Leaf {
    pub(crate) text: Zeroizing<String>,
    pub(crate) identity: Identity,
}

/// The one subject alternative name of a certificate.
pub(crate) enum San {
    Uri(String),
    Dns(String),
}

/// Days in seconds.
pub(crate) fn seconds(days: u32) -> i64 {
    i64::from(days) * DAY_SECONDS
}

/// From a little before `now` until `life` seconds after it.
pub(crate) fn validity(life: i64, now: i64) -> Result<Validity, AuthorityError> {
    if life <= 0 {
        return Err(AuthorityError::NoDays);
    }
    if !BELIEVABLE.contains(&now) {
        return Err(AuthorityError::Clock { now });
    }
    Ok(Validity { not_before: now - BACKDATED_SECONDS, not_after: now + life })
}

/// The same, issued in the first second that is not revoked, if `now` still is.
pub(crate) fn not_revoked(
    valid: Validity,
    node: &NodeId,
    revocations: &Revocations,
    now: i64,
) -> Result<Validity, AuthorityError> {
    let Some(until) = revocations.until(node) else { return Ok(valid) };
    let not_before = valid.not_before.max(until.saturating_add(1).saturating_sub(BACKDATED_SECONDS));
    if not_before > now {
        return Err(AuthorityError::RevokedUntil { node: node.clone(), until, now });
    }
    Ok(Validity { not_before, ..valid })
}

/// What every certificate of iop has: a random serial, a validity, one name, a subject for people to read.
pub(crate) fn params(subject: &str, valid: Validity, san: San) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.serial_number = Some(serial()?);
    params.not_before = date(valid.not_before)?;
    params.not_after = date(valid.not_after)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "iop");
    params.distinguished_name.push(DnType::CommonName, subject);
    let ascii = |text: String| text.try_into().map_err(|reason| make_error("a certificate's name", reason));
    params.subject_alt_names = vec![match san {
        San::Uri(uri) => SanType::URI(ascii(uri)?),
        San::Dns(name) => SanType::DnsName(ascii(name)?),
    }];
    Ok(params)
}

/// A new ECDSA P-256 key.
pub(crate) fn new_key() -> Result<KeyPair, AuthorityError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|reason| make_error("a key", reason))
}

pub(crate) fn make_error(what: &'static str, reason: rcgen::Error) -> AuthorityError {
    AuthorityError::Make { what, reason }
}

/// 16 random bytes. The first is made 0x40 to 0x7f: so the number is positive, and always of the same length.
fn serial() -> Result<SerialNumber, AuthorityError> {
    let mut bytes = random::bytes::<16>().map_err(|_| AuthorityError::Random)?;
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn date(seconds: i64) -> Result<OffsetDateTime, AuthorityError> {
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| AuthorityError::Clock { now: seconds })
}
