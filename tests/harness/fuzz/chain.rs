//! The edge's answer to a node's request for a certificate, as the node reads it.

use super::authority::{NOW, with_deployments};
use iop_certs::{RenewalError, RenewalRequest};
use rustls::pki_types::CertificateDer;

/// The edge's answer, put together from certificates that there are, changed bytes, and any bytes.
pub fn chain(data: &[u8]) {
    with_deployments(|ours, strange| {
        let request = RenewalRequest::new().expect("a key");
        let issued = ours.answer(&ours.node, request.csr()).expect("a good request");
        let of_other = ours.answer(&ours.other_node, request.csr()).expect("a good request");
        let of_stranger = strange.answer(&strange.node, request.csr()).expect("a good request");
        let known = [
            &issued[0],
            &issued[1],
            &ours.edge.roots[0],
            &ours.node.chain[0],
            &ours.edge.chain[0],
            &of_other[0],
            &of_stranger[0],
            &of_stranger[1],
            &strange.edge.roots[0],
        ];
        let answer = put_together(data, &known);
        match request.complete(&ours.node, &answer, NOW) {
            Ok(bundle) => {
                let new = bundle.identity();
                assert_eq!(new.chain[0], issued[0], "no other is this node's and for this key");
                assert!(new.chain.iter().all(|certificate| answer.contains(certificate)));
                assert_eq!((&new.node, &new.deployment), (&ours.node.node, &ours.node.deployment));
                assert_eq!(new.roots, ours.node.roots, "whom to trust is not the edge's to say");
                assert!(new.not_after > ours.node.not_after);
            }
            Err(RenewalError::Changed { .. } | RenewalError::Lost { .. } | RenewalError::Store(_)) => {
                panic!("no file is touched here")
            }
            Err(refusal) => {
                assert_ne!(answer, issued, "{refusal}");
                let shown = refusal.to_string();
                assert!(shown.len() < 2000 && !shown.contains(char::is_control), "{shown:?}");
            }
        }
    });
}

/// Each certificate: a known one by its number, or a length in two bytes and so many bytes. Between them: a byte of the last
/// one is changed.
fn put_together(data: &[u8], known: &[&CertificateDer<'static>]) -> Vec<CertificateDer<'static>> {
    let (mut certificates, mut rest) = (Vec::<Vec<u8>>::new(), data);
    loop {
        rest = match rest {
            [number, after @ ..] if usize::from(*number) < known.len() => {
                certificates.push(known[usize::from(*number)].to_vec());
                after
            }
            [0x80, high, low, change, after @ ..] => {
                let place = usize::from(u16::from_be_bytes([*high, *low]));
                if let Some(byte) = certificates.last_mut().and_then(|last| last.get_mut(place)) {
                    *byte ^= change;
                }
                after
            }
            [_, high, low, after @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
                let (certificate, after) = after.split_at(length);
                certificates.push(certificate.to_vec());
                after
            }
            _ => return certificates.into_iter().map(CertificateDer::from).collect(),
        };
    }
}
