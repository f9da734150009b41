//! Compiles the sections that are about the edge process itself: its listeners, certificates and queue.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::auth::from_environment;
use super::{Admin, Auth, CorsOrigins, EdgeCerts, Http, HttpTls, ProviderPool, Quic};
use crate::issue::NoValue;
use crate::load::{Environment, beside};
use crate::names::{EnvName, Origin};
use crate::schema::HTTP_TLS;
use crate::secret::Secret;
use crate::section::Section;
use crate::tree::{Value, index_path};

pub(super) fn quic(section: &Section<'_>) -> Result<Quic, NoValue> {
    let listen = section.read("listen");
    let idle_timeout = section.millis("idle_timeout_ms");
    let segmentation_offload = section.read("segmentation_offload");
    Ok(Quic { listen: listen?, idle_timeout: idle_timeout?, segmentation_offload: segmentation_offload? })
}

pub(super) fn http(
    section: &Section<'_>,
    listen: Result<SocketAddr, NoValue>,
    origin: &Path,
) -> Result<Http, NoValue> {
    let max_connections = section.read("max_connections");
    let max_body_bytes = section.read("max_body_bytes");
    let max_buffered_bytes = section.read("max_buffered_bytes");
    let write_stall_timeout = section.millis("write_stall_timeout_ms");
    let sse_keep_alive = section.optional::<u64>("sse_keep_alive_ms");
    let cors_origins = cors_origins(section);
    let tls = tls(section, origin);
    let (max_body_bytes, max_buffered_bytes) = (max_body_bytes?, max_buffered_bytes?);
    if max_buffered_bytes < max_body_bytes {
        let expected = format!("at least `http.max_body_bytes`, {max_body_bytes}");
        return Err(section.issue("max_buffered_bytes", format!("`{max_buffered_bytes}`"), expected));
    }
    Ok(Http {
        listen: listen?,
        max_connections: max_connections?,
        max_body_bytes,
        max_buffered_bytes,
        write_stall_timeout: write_stall_timeout?,
        sse_keep_alive: sse_keep_alive?.map(Duration::from_millis),
        cors_origins: cors_origins?,
        tls: tls?,
    })
}

fn tls(http: &Section<'_>, origin: &Path) -> Result<Option<HttpTls>, NoValue> {
    if !http.is_written("tls") {
        return Ok(None);
    }
    let section = http.section("tls", &HTTP_TLS)?;
    let (cert, key) = (section.read("cert"), section.read("key"));
    Ok(Some(HttpTls { cert: beside(origin, cert?), key: beside(origin, key?) }))
}

fn cors_origins(section: &Section<'_>) -> Result<CorsOrigins, NoValue> {
    if !section.is_written("cors_origins") {
        return Ok(CorsOrigins::Any);
    }
    let items = section.items("cors_origins")?;
    let is_any = |value: &Value<'_>| matches!(value, Value::Scalar(scalar) if scalar.text == "*");
    match items.iter().position(|item| is_any(&item.value)) {
        None => section.list::<Origin>("cors_origins", Origin::EXPECTED).map(CorsOrigins::Only),
        Some(_) if items.len() == 1 => Ok(CorsOrigins::Any),
        Some(index) => {
            let path = index_path(&section.path_of("cors_origins"), index);
            let found = "`*` beside other origins";
            Err(section.report(items[index].position, &path, found, "`*` alone, or origins without it"))
        }
    }
}

pub(super) fn admin(
    section: &Section<'_>,
    http: Result<SocketAddr, NoValue>,
    clients: Result<&Auth, &NoValue>,
    environment: Environment<'_>,
) -> Result<Admin, NoValue> {
    let listen = admin_listen(section, http);
    let key = admin_key(section, clients, environment);
    Ok(Admin { listen: listen?, key: key? })
}

/// A second TCP listener must not want the port of the first: the system would refuse it only at start. And without a key
/// it must not be where others than this machine's users can call.
fn admin_listen(section: &Section<'_>, http: Result<SocketAddr, NoValue>) -> Result<SocketAddr, NoValue> {
    let listen: SocketAddr = section.read("listen")?;
    let refused = |expected: String| Err(section.issue("listen", format!("`{listen}`"), expected));
    match http {
        Ok(http) if collide(listen, http) => {
            refused(format!("an address that `http.listen`, {http}, does not take"))
        }
        _ if !listen.ip().is_loopback() && !section.is_written("key_env") => {
            refused("a loopback address while there is no `admin.key_env`, or a key there".to_owned())
        }
        _ => Ok(listen),
    }
}

/// A client that held the operators' key could do all that they can.
fn admin_key(
    section: &Section<'_>,
    clients: Result<&Auth, &NoValue>,
    environment: Environment<'_>,
) -> Result<Option<Secret>, NoValue> {
    let Some(name) = section.optional::<EnvName>("key_env")? else { return Ok(None) };
    let key = from_environment(section, environment, &name)?;
    match clients.ok().and_then(|auth| auth.keys.iter().find(|client| client.key == key)) {
        Some(client) => {
            let found = format!("the same key as the client `{}` has", client.name);
            Err(section.issue("key_env", found, "a key of its own"))
        }
        None => Ok(Some(key)),
    }
}

fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    // A wildcard IPv6 listener takes IPv4 as well unless the system is set up otherwise.
    let covers = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() && (a.is_ipv6() || b.is_ipv4());
    a.port() != 0 && a.port() == b.port() && (covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

pub(super) fn certs(section: &Section<'_>, origin: &Path) -> Result<EdgeCerts, NoValue> {
    Ok(EdgeCerts { dir: beside(origin, section.read("dir")?) })
}

pub(super) fn pool(section: &Section<'_>) -> Result<ProviderPool, NoValue> {
    let max_queue = section.read("max_queue");
    let queue_timeout = section.millis("queue_timeout_ms");
    let max_attempts = section.read("max_attempts");
    Ok(ProviderPool { max_queue: max_queue?, queue_timeout: queue_timeout?, max_attempts: max_attempts? })
}
