//! Bytes that mean harm: loading and reading a peer's certificate end with an error or a result, never a panic.

use std::sync::LazyLock;

use iop_certs::{Authority, Role, load_bundle_at, peer_node};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use proptest::sample::Index;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::made::{NOW, Pki, folder, private, sections, text};

/// A node's file as iop writes it.
static BUNDLE: LazyLock<String> = LazyLock::new(|| text(&Pki::new().node("gpu-a")));

fn load(bytes: &[u8]) {
    let folder = folder();
    let path = private(&folder.path().join("bundle.pem"), bytes);
    for role in [Role::Edge, Role::Node] {
        for result in [load_bundle_at(&path, role, NOW), load_bundle_at(&path, role, i64::MAX)] {
            // Showing an error must not panic either.
            let _shown = result.map(|identity| format!("{identity:?}")).map_err(|error| error.to_string());
        }
    }
}

fn peer(der: &[u8]) {
    let _shown = peer_node(&CertificateDer::from(der), "edge.iop").map_err(|error| error.to_string());
}

/// Bytes with some of them changed, cut at some place.
fn altered(original: &[u8], changes: &[(Index, u8)], end: Option<Index>) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for (place, value) in changes {
        let place = place.index(bytes.len());
        bytes[place] = *value;
    }
    bytes.truncate(end.map_or(bytes.len(), |end| end.index(original.len())));
    bytes
}

fn section(tag: &str, der: &[u8]) -> String {
    pem::encode(&pem::Pem::new(tag, der))
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_calmly(bytes in vec(any::<u8>(), 0..2000)) {
        load(&bytes);
        peer(&bytes);
    }

    #[test]
    fn arbitrary_sections_are_refused_calmly(key in vec(any::<u8>(), 0..300), leaf in vec(any::<u8>(), 0..300)) {
        load((section("PRIVATE KEY", &key) + &section("CERTIFICATE", &leaf)).as_bytes());
    }

    #[test]
    fn altered_files_are_refused_calmly(changes in vec((any::<Index>(), any::<u8>()), 0..4), end in any::<Option<Index>>()) {
        load(&altered(BUNDLE.as_bytes(), &changes, end));
    }

    #[test]
    fn altered_certificates_are_refused_calmly(
        which in 0..3_usize,
        changes in vec((any::<Index>(), any::<u8>()), 1..6),
        end in any::<Option<Index>>(),
    ) {
        let parts = sections(&BUNDLE);
        let certificate = CertificateDer::from_pem_slice(parts[which + 1].as_bytes()).expect("a certificate");
        let bytes = altered(&certificate, &changes, end);
        peer(&bytes);
        let mut parts = parts;
        parts[which + 1] = section("CERTIFICATE", &bytes);
        load(parts.concat().as_bytes());
    }

    #[test]
    fn altered_authorities_are_refused_calmly(
        issuing in vec((any::<Index>(), any::<u8>()), 0..4),
        key in vec((any::<Index>(), any::<u8>()), 0..4),
    ) {
        let folder = folder();
        let parts = sections(&BUNDLE);
        private(&folder.path().join("root.pem"), &parts[3]);
        private(&folder.path().join("issuing.pem"), altered(parts[2].as_bytes(), &issuing, None));
        private(&folder.path().join("issuing.key"), altered(parts[0].as_bytes(), &key, None));
        let _shown = Authority::load(folder.path()).map_err(|error| error.to_string());
    }
}
