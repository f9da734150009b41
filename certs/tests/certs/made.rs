//! What the tests look at: an authority made by iop, and odd certificates that iop itself never makes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iop_certs::{InitOptions, NodeId, init, issue_node};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;
use time::OffsetDateTime;

/// The time of every test: 2027-01-15T08:00:00Z.
pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const DAY: i64 = 24 * 60 * 60;

pub(crate) struct Pki {
    /// Holds the folder for as long as the test runs.
    _temporary: TempDir,
    pub(crate) dir: PathBuf,
}

impl Pki {
    /// A new authority named edge.iop.
    pub(crate) fn new() -> Self {
        let temporary = folder();
        let dir = temporary.path().join("pki");
        init(&dir, &InitOptions::default(), NOW).expect("a new authority");
        Self { _temporary: temporary, dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn edge(&self) -> PathBuf {
        self.path("edge.pem")
    }

    /// Issues to a node, and gives its file.
    pub(crate) fn node(&self, id: &str) -> PathBuf {
        issue_node(&self.dir, &node_id(id), 90, NOW).expect("the authority issues").path
    }
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

pub(crate) fn node_id(id: &str) -> NodeId {
    id.parse().expect("a good node id")
}

pub(crate) fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("the file can be read")
}

/// Writes a file as private as a key has to be.
pub(crate) fn private(path: &Path, text: impl AsRef<[u8]>) -> PathBuf {
    fs::write(path, text).expect("the file can be written");
    set_mode(path, 0o600);
    path.to_owned()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode can be set");
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).expect("the path is there").permissions().mode() & 0o7777
}

/// Every file of a folder, hidden ones too, with its text.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entry = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path()).expect("a readable file");
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    };
    fs::read_dir(dir).expect("the folder can be read").map(|found| entry(found.expect("an entry"))).collect()
}

/// The PEM sections of a file: for a bundle the key, the leaf, the issuing CA and the root.
pub(crate) fn sections(text: &str) -> Vec<String> {
    const BEGIN: &str = "-----BEGIN ";
    text.split(BEGIN).skip(1).map(|section| format!("{BEGIN}{section}")).collect()
}

/// A root that signs anything.
pub(crate) struct OddAuthority {
    pub(crate) root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Odd {
    pub(crate) certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl OddAuthority {
    pub(crate) fn new() -> Self {
        let mut params = params("odd root");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let root = params.self_signed(&key).expect("a root").into();
        Self { root, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, names: Vec<SanType>, uses: &[ExtendedKeyUsagePurpose]) -> Odd {
        let mut params = params("odd leaf");
        params.subject_alt_names = names;
        params.extended_key_usages = uses.to_vec();
        self.sign(&params)
    }

    pub(crate) fn sign(&self, params: &CertificateParams) -> Odd {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").into();
        Odd { certificate, key }
    }

    /// A bundle with a leaf straight below the root.
    pub(crate) fn bundle(&self, leaf: &Odd) -> String {
        [leaf.key.serialize_pem(), pem(&leaf.certificate), pem(&self.root)].concat()
    }
}

/// A day before and after NOW.
pub(crate) fn params(subject: &str) -> CertificateParams {
    let date = |seconds| OffsetDateTime::from_unix_timestamp(seconds).expect("a date");
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (date(NOW - DAY), date(NOW + DAY));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    params
}

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().expect("ASCII"))
}

pub(crate) fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().expect("ASCII"))
}

pub(crate) fn pem(certificate: &CertificateDer<'_>) -> String {
    pem::encode_config(
        &pem::Pem::new("CERTIFICATE", certificate.as_ref()),
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    )
}
