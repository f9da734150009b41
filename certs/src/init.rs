//! Making a deployment's authority: root, issuing CA and the edge's first certificate. An existing authority is never
//! touched.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use crate::authority::{
    Authority, AuthorityError, EDGE_BUNDLE, ISSUING_CERTIFICATE, ISSUING_KEY, ROOT_CERTIFICATE, ROOT_KEY,
};
use crate::bundle;
use crate::certificate::Validity;
use crate::deployment::{DEFAULT_EDGE_NAME, Deployment};
use crate::identity::Role;
use crate::issue::{self, DEFAULT_LEAF_DAYS, San, make_error, new_key};
use crate::{random, store};

/// Ten years: longer than a deployment's hardware; replacing a root means visiting every node.
const ROOT_DAYS: u32 = 10 * 365;
/// Five years: replacing it means issuing every certificate again, and nothing else.
const ISSUING_DAYS: u32 = 5 * 365;

/// What is asked of a new authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitOptions {
    /// The deployment's name: a lower-case DNS name of at most 200 characters.
    pub edge_name: String,
    /// Days for which the edge's certificate is good.
    pub days: u32,
}

impl Default for InitOptions {
    fn default() -> Self {
        Self { edge_name: DEFAULT_EDGE_NAME.to_owned(), days: DEFAULT_LEAF_DAYS }
    }
}

/// What `init` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitReport {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The deployment's name.
    pub edge_name: String,
    /// Last second at which the edge's certificate is good, in seconds since 1970.
    pub edge_not_after: i64,
}

/// Makes an authority and the edge's certificate in `dir`, which is made if it is missing. `now` is in seconds since
/// 1970.
pub fn init(dir: &Path, options: &InitOptions, now: i64) -> Result<InitReport, AuthorityError> {
    let deployment: Deployment = options
        .edge_name
        .parse()
        .map_err(|reason| AuthorityError::EdgeName { name: options.edge_name.clone(), reason })?;
    let root = root(&deployment, now)?;
    let valid = issue::validity(issue::seconds(ISSUING_DAYS), now)?;
    let issuing = issuing(&deployment, valid, &root.issuer)?;
    let (root_key, issuing_key) = (root.key_text(), issuing.key_text());
    let (root_text, issuing_text) =
        (bundle::certificate(&root.certificate), bundle::certificate(&issuing.certificate));

    let authority = Authority {
        dir: dir.to_owned(),
        deployment,
        roots: vec![root.certificate],
        issuing: issuing.certificate,
        valid,
        issuer: issuing.issuer,
    };
    let edge_name = authority.edge_name().to_owned();
    let edge_path = dir.join(EDGE_BUNDLE);
    let edge_valid = authority.leaf_validity(issue::seconds(options.days), now)?;
    let edge = authority.leaf(&edge_path, Role::Edge, San::Dns(edge_name.clone()), edge_valid, now)?;

    // The root's key comes last, so that its place is what two runs at once contend for.
    let files = [
        (dir.join(ROOT_CERTIFICATE), root_text),
        (dir.join(ISSUING_CERTIFICATE), issuing_text),
        (dir.join(ISSUING_KEY), issuing_key),
        (edge_path, edge.text),
        (dir.join(ROOT_KEY), root_key),
    ];
    store::prepare_folder(dir)?;
    store::create_all(&files)?;
    let files = files.into_iter().map(|(path, _)| path).collect();
    Ok(InitReport { files, edge_name, edge_not_after: edge_valid.not_after })
}

/// A CA while it is being made.
struct Ca {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn key_text(&self) -> Zeroizing<String> {
        bundle::with_key(self.issuer.key().serialized_der(), [])
    }
}

fn root(deployment: &Deployment, now: i64) -> Result<Ca, AuthorityError> {
    let params = ca_params("root CA", deployment, issue::validity(issue::seconds(ROOT_DAYS), now)?, 1)?;
    let key = new_key()?;
    let certificate =
        params.self_signed(&key).map_err(|reason| make_error("the root certificate", reason))?;
    Ok(Ca { certificate: certificate.into(), issuer: Issuer::new(params, key) })
}

fn issuing(
    deployment: &Deployment,
    valid: Validity,
    root: &Issuer<'_, KeyPair>,
) -> Result<Ca, AuthorityError> {
    let mut params = ca_params("issuing CA", deployment, valid, 0)?;
    params.use_authority_key_identifier_extension = true;
    let key = new_key()?;
    let certificate =
        params.signed_by(&key, root).map_err(|reason| make_error("the issuing certificate", reason))?;
    Ok(Ca { certificate: certificate.into(), issuer: Issuer::new(params, key) })
}

/// `below`: how many CAs may stand between this one and a leaf.
fn ca_params(
    kind: &str,
    deployment: &Deployment,
    valid: Validity,
    below: u8,
) -> Result<CertificateParams, AuthorityError> {
    // The random part keeps the names of two authorities apart: a verifier finds its issuer by name.
    let suffix = random::bytes::<4>().map_err(|_| AuthorityError::Random)?;
    let subject = format!("{kind} {}", random::hex(&suffix));
    let mut params = issue::params(&subject, valid, San::Uri(deployment.authority_uri()))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}
