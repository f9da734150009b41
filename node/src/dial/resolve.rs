//! Names to addresses. Behind a trait, so that a network made in memory has names of its own.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// An answer that is still awaited.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Finds the addresses of a host, in the order in which they are to be tried.
pub trait Resolver: Send + Sync {
    /// `host` is a DNS name or an IP address without brackets. The caller bounds the wait.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// The system's resolver. Addresses that this machine cannot reach come last where the system sorts them so.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}
