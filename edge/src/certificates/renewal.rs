//! When the edge renews its own certificate, and when it complains that it could not. Pure: the clock is an argument, in
//! seconds since 1970. How it is renewed is `iop-certs`' business.

use iop_certs::{AuthorityError, Identity, is_renewal_due};

/// Between two tries: whatever is in the way is mended by a person.
const TRY_SECONDS: i64 = 10 * 60;

/// Between two complaints.
const SAY_SECONDS: i64 = 24 * 60 * 60;

/// What was tried and said of one certificate.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    of: Certificate,
    tried: Option<i64>,
    said: Option<i64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Certificate {
    serial: String,
    not_before: i64,
    not_after: i64,
}

/// What is to be said of a renewal that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// There is time, and nothing may be wrong: the authority may be kept elsewhere.
    Nothing,
    /// It was said not long ago.
    Before,
    /// Somebody should know.
    Now,
}

impl Renewal {
    /// Whether the certificate is to be renewed now; that counts as a try.
    pub(super) fn begins(&mut self, identity: &Identity, now: i64) -> bool {
        let Identity { not_before, not_after, .. } = *identity;
        let of = Certificate { serial: identity.serial.clone(), not_before, not_after };
        if of != self.of {
            *self = Self { of, ..Self::default() };
        }
        let begins = is_renewal_due(not_before, not_after, now) && is_over(self.tried, TRY_SECONDS, now);
        if begins {
            self.tried = Some(now);
        }
        begins
    }

    /// A try failed.
    pub(super) fn failed(&mut self, error: &AuthorityError, now: i64) -> Said {
        let Certificate { not_before, not_after, .. } = self.of;
        let last_third = not_after.saturating_sub(not_after.saturating_sub(not_before) / 3);
        if matches!(error, AuthorityError::Elsewhere { .. }) && now < last_third {
            return Said::Nothing;
        }
        if !is_over(self.said, SAY_SECONDS, now) {
            return Said::Before;
        }
        self.said = Some(now);
        Said::Now
    }
}

/// Whether this long has passed. A clock that was set back ends every wait.
fn is_over(since: Option<i64>, seconds: i64, now: i64) -> bool {
    since.is_none_or(|since| now < since || now - since >= seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    const DAY: i64 = 24 * 60 * 60;

    /// Good from day 0 to the end of day 90.
    fn identity(serial: &str) -> Identity {
        Identity {
            chain: Vec::new(),
            key: PrivateKeyDer::Pkcs8(Vec::new().into()),
            roots: Vec::new(),
            deployment: "edge.iop".to_owned(),
            node: None,
            not_before: 0,
            not_after: 90 * DAY,
            serial: serial.to_owned(),
        }
    }

    #[test]
    fn a_certificate_is_renewed_after_a_third_of_its_life_and_tried_again_after_a_while() {
        let mut renewal = Renewal::default();
        let table = [
            (0, false),
            (30 * DAY - 1, false),
            (30 * DAY, true),
            (30 * DAY, false),
            (30 * DAY + 599, false),
            (30 * DAY + 600, true),
            // Set back, but not before it is due.
            (30 * DAY + 10, true),
            (29 * DAY, false),
            (91 * DAY, true),
        ];
        for (now, begins) in table {
            assert_eq!(renewal.begins(&identity("0a"), now), begins, "{now}");
        }
        assert!(!renewal.begins(&identity("0a"), 91 * DAY + 1));
        assert!(renewal.begins(&identity("0b"), 91 * DAY + 1), "another certificate has had no try");
    }

    #[test]
    fn an_authority_kept_elsewhere_is_no_complaint_before_the_last_third_and_then_one_a_day() {
        let elsewhere = AuthorityError::Elsewhere { path: "pki/issuing.key".into() };
        let mut renewal = Renewal::default();
        let table = [
            (30 * DAY, Said::Nothing),
            (60 * DAY - 600, Said::Nothing),
            (60 * DAY, Said::Now),
            (60 * DAY + 600, Said::Before),
            (61 * DAY - 600, Said::Before),
            (61 * DAY, Said::Now),
            (95 * DAY, Said::Now),
        ];
        for (now, said) in table {
            assert!(renewal.begins(&identity("0a"), now), "{now}");
            assert_eq!(renewal.failed(&elsewhere, now), said, "{now}");
        }
    }

    #[test]
    fn every_other_failure_is_said_at_once_and_then_once_a_day() {
        let mut renewal = Renewal::default();
        let table = [(30 * DAY, Said::Now), (30 * DAY + 600, Said::Before), (31 * DAY, Said::Now)];
        for (now, said) in table {
            assert!(renewal.begins(&identity("0a"), now), "{now}");
            assert_eq!(renewal.failed(&AuthorityError::Random, now), said, "{now}");
        }
        assert!(renewal.begins(&identity("0b"), 31 * DAY + 600));
        assert_eq!(renewal.failed(&AuthorityError::Random, 31 * DAY + 600), Said::Now, "of another one");
    }
}
