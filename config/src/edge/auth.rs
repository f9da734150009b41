//! Compiles keys. Their text comes from the file or the environment and goes nowhere but into a Secret.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Auth, AuthKey};
use crate::issue::NoValue;
use crate::load::Environment;
use crate::names::{EnvName, KeyName};
use crate::schema::{AUTH, AUTH_KEY};
use crate::secret::Secret;
use crate::section::{Section, all};

/// The keys; without any, refuses to listen where others than this machine's users can call.
pub(super) fn auth(
    file: &Section<'_>,
    environment: Environment<'_>,
    http: &Result<Section<'_>, NoValue>,
    http_listen: Result<SocketAddr, NoValue>,
) -> Result<Auth, NoValue> {
    let sections = file.section("auth", &AUTH)?.sections("keys", &AUTH_KEY)?;
    if let (true, Ok(http), Ok(listen)) = (sections.is_empty(), http, http_listen)
        && !listen.ip().is_loopback()
    {
        let expected = "a loopback address while `auth.keys` is empty, or a key there";
        return Err(http.issue("listen", format!("`{listen}`"), expected));
    }
    let mut names = BTreeMap::new();
    let mut holders = BTreeMap::new();
    let keys = sections.into_iter().map(|section| {
        let section = section?;
        let name = name(&section, &mut names);
        let key = key(&section, environment).and_then(|key| match (&name, holders.get(&key)) {
            (_, Some(holder)) => Err(same_key(&section, holder)),
            (Ok(name), None) => {
                holders.insert(key.clone(), name.clone());
                Ok(key)
            }
            (Err(_), None) => Ok(key),
        });
        let max_in_flight = section.optional("max_in_flight");
        let max_queued = section.optional("max_queued");
        Ok(AuthKey { name: name?, key: key?, max_in_flight: max_in_flight?, max_queued: max_queued? })
    });
    Ok(Auth { keys: all(keys)? })
}

fn name(section: &Section<'_>, names: &mut BTreeMap<KeyName, u32>) -> Result<KeyName, NoValue> {
    let name: KeyName = section.read("name")?;
    section.once("name", &name, names)?;
    Ok(name)
}

fn same_key(section: &Section<'_>, holder: &KeyName) -> NoValue {
    let name = if section.is_written("key") { "key" } else { "key_env" };
    section.issue(name, format!("the same key as `{holder}` has"), "a key of its own")
}

fn key(section: &Section<'_>, environment: Environment<'_>) -> Result<Secret, NoValue> {
    match (section.optional::<Secret>("key"), section.optional::<EnvName>("key_env")) {
        (Ok(Some(key)), Ok(None)) => Ok(key),
        (Ok(None), Ok(Some(name))) => from_environment(section, environment, &name),
        (Ok(None), Ok(None)) => Err(section.issue("key_env", "nothing", "`key_env` or `key`")),
        (Ok(Some(_)), Ok(Some(_))) => Err(section.issue("key", "`key` beside `key_env`", "one of them")),
        _ => Err(NoValue),
    }
}

/// The key in the variable that `key_env` of the section names.
pub(super) fn from_environment(
    section: &Section<'_>,
    environment: Environment<'_>,
    name: &EnvName,
) -> Result<Secret, NoValue> {
    let Environment::Lookup(lookup) = environment else { return Err(NoValue) };
    let state = match lookup(name.as_str()) {
        None => "which is not set",
        Some(value) if value.is_empty() => "which is empty",
        Some(value) => match value.parse() {
            Ok(key) => return Ok(key),
            Err(_) => "whose value cannot be a key",
        },
    };
    let found = format!("the environment variable `{name}`, {state}");
    Err(section.issue("key_env", found, format!("it to hold {}", Secret::EXPECTED)))
}
