//! Runs the client scripts of tests/clients and reads what they saw.

use crate::lab::required;
use iop_tests::process::{Finished, Program};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest run of one client; its single calls have 60 s.
pub(crate) const CLIENT_DEADLINE: Duration = Duration::from_secs(150);

/// A client library with its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// PyPI `openai`.
    OpenAi,
    /// npm `openai`.
    OpenAiNode,
    /// PyPI `langchain-openai`.
    LangChain,
    /// PyPI `anthropic`.
    Anthropic,
}

impl Client {
    /// The script with its base URL and model; checks and options are to be added.
    pub(crate) fn program(self, server: SocketAddr, model: &str) -> Program {
        let program = match self {
            Self::OpenAi => python("clients/openai_client.py"),
            Self::OpenAiNode => Program::new("node").args([file("clients/openai_client.mjs")]),
            Self::LangChain => python("clients/langchain_client.py"),
            Self::Anthropic => python("clients/anthropic_client.py"),
        };
        let base = if self == Self::Anthropic { "" } else { "/v1" };
        program.named(&format!("{self:?}")).args([format!("http://{server}{base}").as_str(), model])
    }

    /// Runs these checks, all of which must pass.
    pub(crate) async fn check(
        self,
        server: SocketAddr,
        model: &str,
        checks: &[&str],
        options: &[&str],
    ) -> Seen {
        let finished = self.program(server, model).args(checks).args(options).run(CLIENT_DEADLINE).await;
        let seen = Seen::read(&finished.expect_success(&format!("{self:?}")));
        let done: Vec<&str> = seen.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(done, checks, "each check was made");
        seen
    }
}

/// A script of tests/ in the Python environment that tests/run made.
pub(crate) fn python(script: &str) -> Program {
    Program::new(required("IOP_TESTS_PYTHON")).args([file(script)])
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// What a client saw in each check, in their order.
#[derive(Debug)]
pub(crate) struct Seen(Vec<(String, Value)>);

impl Seen {
    pub(crate) fn read(finished: &Finished) -> Self {
        let lines = finished.stdout.iter().filter_map(|line| line.strip_prefix("ok "));
        let read = |line: &str| {
            let (name, seen) = line.split_once(' ').expect("a name and what was seen");
            (name.to_owned(), serde_json::from_str(seen).expect("what was seen is JSON"))
        };
        Self(lines.map(read).collect())
    }

    /// What was seen in this check.
    pub(crate) fn of(&self, check: &str) -> &Value {
        let found = self.0.iter().find(|(name, _)| name == check);
        &found.unwrap_or_else(|| panic!("no {check} in {self:?}")).1
    }

    /// Passes when each of these checks saw exactly this text.
    pub(crate) fn assert_text(&self, checks: &[&str], text: &str) {
        for check in checks {
            assert_eq!(self.of(check)["text"], text, "{check}");
        }
    }

    /// Passes when each of these checks saw some text.
    pub(crate) fn assert_some_text(&self, checks: &[&str]) {
        for check in checks {
            let seen = self.of(check);
            assert!(seen["text"].as_str().is_some_and(|text| !text.is_empty()), "{check}: {seen}");
        }
    }
}
