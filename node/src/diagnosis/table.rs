//! The codes of QUIC and TLS, and what follows from each problem, case by case.

use super::classify::{Judge, of_code};
use super::{Diagnosis, Fault, Problem};
use crate::supervisor::{Exit, Failure, Retry};
use iop_transport::ConnectionError;
use iop_transport::codes::CloseCode;

const TERMINAL: Retry = Retry::Never(Exit::Credentials);

#[test]
fn each_code_of_tls_is_told_apart_by_who_judged() {
    let cases = [
        (0x12a, Fault::Bad),
        (0x12b, Fault::WrongKind),
        (0x12c, Fault::Revoked),
        (0x12d, Fault::Validity),
        (0x12e, Fault::Other),
        (0x130, Fault::UnknownAuthority),
        (0x131, Fault::Other),
        (0x133, Fault::UnknownAuthority),
        (0x174, Fault::Missing),
    ];
    for (code, fault) in cases {
        assert_eq!(of_code(code, Judge::Node), Problem::EdgeCertificate(fault), "{code:#x}");
        assert_eq!(of_code(code, Judge::Edge), Problem::CertificateRefused(fault), "{code:#x}");
        assert_eq!(of_code(code, Judge::Edge).failure().retry(), TERMINAL, "{code:#x}");
        // An expired certificate of the edge, or a clock of ours that is off, is mended without this node.
        let expected = if fault == Fault::Validity { Retry::Paced } else { TERMINAL };
        assert_eq!(of_code(code, Judge::Node).failure().retry(), expected, "{code:#x}");
    }
}

#[test]
fn other_codes_of_quic_are_no_verdict_on_certificates() {
    for judge in [Judge::Node, Judge::Edge] {
        assert_eq!(of_code(0x178, judge), Problem::NotIop, "ALPN");
        // Internal error of TLS, codes of the transport itself, and beyond the alerts: retryable, whatever they mean.
        for code in [0x150, 0x0, 0x1, 0xa, 0xc, 0x200, u64::MAX] {
            assert_eq!(of_code(code, judge), Problem::Transport(code), "{code:#x}");
            assert_eq!(of_code(code, judge).failure(), Failure::Network, "{code:#x}");
        }
    }
    assert_eq!(of_code(0x2, Judge::Edge), Problem::Busy, "CONNECTION_REFUSED");
    assert_eq!(of_code(0x2, Judge::Node), Problem::Transport(0x2));
}

#[test]
fn each_close_code_of_the_edge_has_the_reaction_of_the_design() {
    let reaction = |code| Problem::Closed(code).failure().retry();
    for &code in CloseCode::ALL {
        let expected = match code {
            CloseCode::BadIdentity => TERMINAL,
            CloseCode::EdgeShutdown | CloseCode::CertificateExpired | CloseCode::CertificateRevoked => {
                Retry::Soon
            }
            _ => Retry::Paced,
        };
        assert_eq!(reaction(code), expected, "{code:?}");
    }
    assert_eq!(Problem::ClosedUnknown(0x1ff).failure().retry(), Retry::Paced);
}

#[test]
fn silence_is_told_apart_before_and_after_the_welcome() {
    let cases = [
        (ConnectionError::TimedOut, Problem::NoAnswer, Problem::Silent),
        (ConnectionError::Reset, Problem::Restarted, Problem::Restarted),
        (ConnectionError::VersionMismatch, Problem::NotIop, Problem::NotIop),
    ];
    for (error, before, after) in cases {
        assert_eq!(Problem::before_welcome(&error), before, "{error}");
        assert_eq!(Problem::after_welcome(&error), after, "{error}");
    }
}

/// Every problem there is.
fn problems() -> Vec<Problem> {
    let faults = [
        Fault::UnknownAuthority,
        Fault::Validity,
        Fault::Revoked,
        Fault::WrongKind,
        Fault::Bad,
        Fault::Missing,
        Fault::Other,
    ];
    let mut problems = vec![
        Problem::Name("no such host".into()),
        Problem::Socket("network is unreachable".into()),
        Problem::OwnCertificate("gpu-a.pem: no such file".into()),
        Problem::OwnCertificateEarly,
        Problem::NoAnswer,
        Problem::Silent,
        Problem::Restarted,
        Problem::Busy,
        Problem::NotIop,
        Problem::ClosedUnknown(0),
        Problem::ClosedUnknown(0x1ff),
        Problem::NoWelcome,
        Problem::EdgeBroke,
        Problem::Transport(0xc),
    ];
    problems.extend(faults.map(Problem::EdgeCertificate));
    problems.extend(faults.map(Problem::CertificateRefused));
    problems.extend(CloseCode::ALL.iter().copied().map(Problem::Closed));
    problems
}

#[test]
fn every_problem_is_one_line_of_its_own_that_says_where() {
    let mut lines: Vec<String> = problems()
        .into_iter()
        .map(|problem| Diagnosis::of(problem, "edge.example.com:7443").to_string())
        .collect();
    for line in &lines {
        assert!(!line.contains('\n') && line.len() < 250, "{line}");
        assert!(
            line.contains("edge.example.com:7443") || line.starts_with("this node's certificate"),
            "{line}"
        );
    }
    let all = lines.len();
    lines.sort();
    lines.dedup();
    assert!(lines.len() + 1 >= all, "only two faults that say nothing may share a line");
}

#[test]
fn what_people_ask_about_is_said() {
    let cases = [
        (Problem::NoAnswer, "no answer over UDP from edge.example.com:7443"),
        (Problem::Name("no such host".into()), "edge.example.com:7443 was not found: no such host"),
        (Problem::EdgeCertificate(Fault::UnknownAuthority), "not signed by this deployment's authority"),
        (Problem::CertificateRefused(Fault::UnknownAuthority), "not signed by the edge's authority"),
        (Problem::CertificateRefused(Fault::Validity), "clocks"),
        (Problem::CertificateRefused(Fault::Revoked), "revoked"),
        (Problem::CertificateRefused(Fault::WrongKind), "not made for a node"),
        (Problem::Closed(CloseCode::Duplicate), "another running process"),
        (Problem::Closed(CloseCode::UnknownNode), "no node of this name in its configuration"),
        (Problem::Closed(CloseCode::EdgeShutdown), "is shutting down"),
    ];
    for (problem, words) in cases {
        let line = Diagnosis::of(problem, "edge.example.com:7443").to_string();
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn an_attempt_names_every_problem_once_with_its_addresses_and_counts_as_the_gravest() {
    let mut diagnosis = Diagnosis::of(Problem::NoAnswer, "192.0.2.1:7443");
    diagnosis.add(Problem::EdgeCertificate(Fault::UnknownAuthority), "192.0.2.2:7443");
    diagnosis.add(Problem::NoAnswer, "192.0.2.3:7443");
    let line = diagnosis.to_string();
    assert!(line.starts_with("no answer over UDP from 192.0.2.1:7443, 192.0.2.3:7443: "), "{line}");
    assert!(line.contains("; the edge at 192.0.2.2:7443 has a certificate"), "{line}");
    assert_eq!(diagnosis.failure(), Failure::Credentials);

    diagnosis = Diagnosis::of(Problem::Closed(CloseCode::Duplicate), "192.0.2.1:7443");
    diagnosis.add(Problem::NoAnswer, "192.0.2.2:7443");
    assert_eq!(diagnosis.failure(), Failure::Duplicate);
    assert_eq!(Diagnosis::default().failure(), Failure::Config, "nothing to dial");
}

#[test]
fn the_order_of_the_addresses_makes_no_news() {
    let diagnosis = |order: [(&str, Problem); 3]| {
        let mut diagnosis = Diagnosis::default();
        order.into_iter().for_each(|(address, problem)| diagnosis.add(problem, address));
        diagnosis
    };
    let first = diagnosis([("a", Problem::NoAnswer), ("b", Problem::NoAnswer), ("c", Problem::Restarted)]);
    assert!(first.is_same(&diagnosis([
        ("c", Problem::Restarted),
        ("b", Problem::NoAnswer),
        ("a", Problem::NoAnswer)
    ])));
    assert!(!first.is_same(&diagnosis([
        ("c", Problem::NoAnswer),
        ("b", Problem::NoAnswer),
        ("a", Problem::NoAnswer)
    ])));
}
