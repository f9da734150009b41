//! A node's request for a certificate, as the edge reads and answers it.

use super::authority::{DAY, Deployment, NAME, NOW, with_deployments};
use iop_certs::{AuthorityError, PeerNode, peer_node};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SigningKey as _};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, alg_id};
use rustls::server::ParsedCertificate;

/// The extension of a certificate for clients and for nothing else: its id, then the one use.
const CLIENTS_ONLY: &[u8] = b"\x06\x03\x55\x1d\x25\x04\x0c\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x02";

/// Zero and a whole request; or the length of what stands before the key in it, and what stands before and after the key: the
/// door then puts a key of its own there and signs.
pub fn csr(data: &[u8]) {
    match data {
        [] => {}
        [0, request @ ..] => with_deployments(|ours, _strange| check_answer(ours, request)),
        [length, around @ ..] => {
            let (before, after) = around.split_at(usize::from(*length).min(around.len()));
            with_deployments(|ours, _strange| check_answer(ours, &signed_request(before, after)));
        }
    }
}

/// A request with a key that fits its signature, whatever else it says.
fn signed_request(before: &[u8], after: &[u8]) -> Vec<u8> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let info = der(0x30, &[before, &key.subject_public_key_info(), after]);
    let signature = key.sign(&info).expect("a signature");
    // ecdsa-with-SHA256.
    let algorithm = der(0x30, &[b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"]);
    der(0x30, &[&info, &algorithm, &der(0x03, &[&[0], &signature])])
}

fn check_answer(ours: &Deployment, request: &[u8]) {
    let chain = match ours.answer(&ours.node, request) {
        Ok(chain) => chain,
        Err(AuthorityError::Request { problem }) => {
            assert!(!problem.is_empty() && problem.len() < 100, "{problem:?}");
            return;
        }
        Err(other) => panic!("nothing else can be wrong here: {other}"),
    };
    let peer = peer_node(&chain[0], NAME).expect("a node's certificate");
    let PeerNode { serial, .. } = &peer;
    assert_ne!(*serial, ours.node.serial, "a new certificate");
    let (not_before, not_after) = (NOW - 600, NOW + 90 * DAY);
    let node_id = ours.node.node.clone().expect("a node");
    assert_eq!(peer, PeerNode { node_id, not_before, not_after, serial: serial.clone() });
    assert_eq!(chain[1..], ours.edge.chain[1..], "what leads to the root");
    assert_eq!(ours.takes(&chain), Ok(()), "good for a client, and no authority");
    assert!(chain[0].windows(CLIENTS_ONLY.len()).any(|part| part == CLIENTS_ONLY), "good for nothing else");
    let asked = Request::read(request).expect("who got a certificate has sent a request");
    assert_eq!(key_of(&chain[0]).as_deref(), Some(asked.key), "the key of the request");
    assert!(asked.is_signed_with_its_key(), "issued for a key that has signed nothing");
}

/// The key in a certificate.
fn key_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let info = ParsedCertificate::try_from(certificate).ok()?.subject_public_key_info();
    key_in(&info).map(<[u8]>::to_vec)
}

/// What counts in a request, read a second time.
struct Request<'a> {
    signed: &'a [u8],
    key: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Request<'a> {
    fn read(request: &'a [u8]) -> Option<Self> {
        let [(0x30, _, request)] = elements(request)[..] else { return None };
        let [(0x30, signed, info), _algorithm, (0x03, _, [0, signature @ ..])] = elements(request)[..] else {
            return None;
        };
        let [_version, _subject, (_, key_info, _), ..] = elements(info)[..] else { return None };
        Some(Self { signed, key: key_in(key_info)?, signature })
    }

    fn is_signed_with_its_key(&self) -> bool {
        let known = ring::default_provider().signature_verification_algorithms.all;
        let mut ours = known.iter().filter(|known| known.public_key_alg_id() == alg_id::ECDSA_P256);
        ours.any(|known| known.verify_signature(self.key, self.signed, self.signature).is_ok())
    }
}

fn key_in(key_info: &[u8]) -> Option<&[u8]> {
    let [(0x30, _, key_info)] = elements(key_info)[..] else { return None };
    let [_algorithm, (0x03, _, [0, key @ ..])] = elements(key_info)[..] else { return None };
    Some(key)
}

/// The elements of DER that stand beside each other, as far as they can be read: the kind, all of it, what is in it.
fn elements(mut der: &[u8]) -> Vec<(u8, &[u8], &[u8])> {
    let mut found = Vec::new();
    while let [kind, first, rest @ ..] = der {
        // A short length, or in how many bytes a long one follows.
        let (long, short) = (first & 0x80 != 0, usize::from(first & 0x7f));
        let (length, rest) = if long { rest.split_at(short.min(rest.len())) } else { (&[*first][..], rest) };
        if length.len() > 4 {
            break;
        }
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let Some((inside, after)) = rest.split_at_checked(length) else { break };
        found.push((*kind, &der[..der.len() - after.len()], inside));
        der = after;
    }
    found
}

fn der(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let inside = parts.concat();
    let length = u16::try_from(inside.len()).expect("inputs are small").to_be_bytes();
    let length: &[u8] = match length {
        [0, length @ 0..0x80] => &[length],
        [0, length] => &[0x81, length],
        [high, low] => &[0x82, high, low],
    };
    [&[kind], length, &inside].concat()
}
