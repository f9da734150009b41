//! The facts of one certificate that iop looks at. Signatures and chains are rustls' work.

use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::Role;
use crate::random::hex;

/// Reads one certificate, and nothing after it. The error is a phrase for a message.
pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok((rest, _)) => Err(format!("{} bytes follow the certificate", rest.len())),
        Err(error) => Err(format!("not an X.509 certificate: {error}")),
    }
}

/// First and last second at which a certificate is good, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

impl Validity {
    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        Self { not_before: validity.not_before.timestamp(), not_after: validity.not_after.timestamp() }
    }
}

/// The serial number in lower-case hexadecimal, without leading zero bytes: one spelling for one number.
pub(crate) fn serial(certificate: &X509Certificate<'_>) -> String {
    let bytes = certificate.raw_serial();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    hex(&bytes[zeros..])
}

/// Whether a certificate is a CA that names itself as its issuer: a root.
pub(crate) fn is_root(certificate: &X509Certificate<'_>) -> bool {
    certificate.is_ca() && certificate.subject().as_raw() == certificate.issuer().as_raw()
}

/// What a leaf may be used for. A leaf with any other set of uses has no role, and the error names its uses.
pub(crate) fn role(certificate: &X509Certificate<'_>) -> Result<Role, String> {
    let usage = match certificate.extended_key_usage() {
        Ok(Some(extension)) => extension.value,
        Ok(None) => return Err("any use".to_owned()),
        Err(_) => return Err("uses that cannot be read".to_owned()),
    };
    let known = [
        (usage.any, "any use"),
        (usage.server_auth, Role::Edge.usage()),
        (usage.client_auth, Role::Node.usage()),
        (usage.code_signing, "codeSigning"),
        (usage.email_protection, "emailProtection"),
        (usage.time_stamping, "timeStamping"),
        (usage.ocsp_signing, "OCSPSigning"),
        (!usage.other.is_empty(), "other uses"),
    ];
    let named: Vec<&str> = known.iter().filter(|(present, _)| *present).map(|(_, name)| *name).collect();
    match named[..] {
        [only] if only == Role::Edge.usage() => Ok(Role::Edge),
        [only] if only == Role::Node.usage() => Ok(Role::Node),
        [] => Err("no use".to_owned()),
        _ => Err(named.join(" and ")),
    }
}
