//! The edge's side of a node's renewal: a request that came from the node, answered with a certificate. Whom it names is what
//! the node's certificate in use says; of the request, only the key counts.

use std::path::Path;

use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SubjectPublicKeyInfo};
use rustls::pki_types::CertificateDer;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::{OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ECDSA_WITH_SHA384};
use x509_parser::prelude::FromDer as _;

use crate::authority::{Authority, AuthorityError};
use crate::certificate::Validity;
use crate::identity::{PeerNode, Role};
use crate::issue::{San, not_revoked};
use crate::load::Identity;
use crate::revocations::Revocations;

/// Issues a certificate in the place of the one that `peer` has shown, from the authority in `dir`: for the key of the
/// request (PKCS#10 in DER), for the peer's node, for as long a life. What those who trust `edge`'s roots would not trust is
/// not issued. `now` is in seconds since 1970.
///
/// The certificate, then what leads from it to a root.
pub fn renew_node(
    dir: &Path,
    edge: &Identity,
    peer: &PeerNode,
    request: &[u8],
    now: i64,
) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
    let key = requested_key(request).map_err(|problem| AuthorityError::Request { problem })?;
    let authority = Authority::load_here(dir)?;
    authority.check_deployment(&edge.deployment)?;
    let revocations = Revocations::load(dir)?.unwrap_or_default();
    let PeerNode { node_id: node, not_before, not_after, serial } = peer;
    if revocations.revokes(peer) {
        return Err(AuthorityError::Revoked { node: node.clone(), serial: serial.clone() });
    }
    let in_use = Validity { not_before: *not_before, not_after: *not_after };
    let valid = not_revoked(authority.longer_than(in_use, now)?, node, &revocations, now)?;
    let uri = San::Uri(authority.deployment.node_uri(node));
    let leaf = authority.sign(&key, Role::Node, uri, valid)?.der().clone();
    authority.check_trusted(&leaf, Role::Node, &edge.roots, now)?;
    Ok(vec![leaf, authority.issuing])
}

/// The key of a request whose signature shows that the sender has its private part. The error is a phrase for a message.
fn requested_key(request: &[u8]) -> Result<SubjectPublicKeyInfo, String> {
    let (rest, request) = X509CertificationRequest::from_der(request)
        .map_err(|_malformed| "it is not PKCS#10 in DER".to_owned())?;
    if !rest.is_empty() {
        return Err(format!("{} bytes follow it", rest.len()));
    }
    let key = SubjectPublicKeyInfo::from_der(request.certification_request_info.subject_pki.raw)
        .map_err(|_unknown| "its key is of no kind that is known here".to_owned())?;
    if key.algorithm() != &PKCS_ECDSA_P256_SHA256 {
        return Err("its key is not one for ECDSA with P-256".to_owned());
    }
    // A signature of another kind would be verified by a key of its kind, in bytes that are none for P-256.
    let with = &request.signature_algorithm.algorithm;
    let is_ecdsa = [OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ECDSA_WITH_SHA384].contains(with);
    if !is_ecdsa || request.verify_signature().is_err() {
        return Err("it is not signed with its own key".to_owned());
    }
    Ok(key)
}
