//! Which names the server answers to, and which pages may speak to it. A page that a browser has loaded from elsewhere can
//! reach a server on loopback; what gives it away is the `Origin` it comes from, or the `Host` it believes to speak to.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Uri};

/// The names of this machine that mean nobody else.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What is let in beside loopback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    hosts: Vec<(String, Option<u16>)>,
    origins: Vec<(String, String, Option<u16>)>,
}

/// Why a request is not for this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    Host,
    Origin,
}

impl Allowed {
    /// Reads what the configuration lists: `name` or `name:port`, and `scheme://name` with or without `:port`. Returns
    /// the first entry that is neither.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Result<Self, String> {
        let host = |entry: &String| host_of(entry).ok_or_else(|| entry.clone());
        let origin = |entry: &String| origin_of(entry).ok_or_else(|| entry.clone());
        Ok(Self {
            hosts: hosts.iter().map(host).collect::<Result<_, _>>()?,
            origins: origins.iter().map(origin).collect::<Result<_, _>>()?,
        })
    }

    /// Tells what is wrong with where a request comes from or goes to, if something is.
    pub(super) fn check(&self, parts: &Parts) -> Result<(), Foreign> {
        let mut hosts = parts.headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => text(host).and_then(host_of),
            (None, None) => parts.uri.authority().and_then(|authority| host_of(authority.as_str())),
            // Two of them are one for each who looks at it.
            _ => None,
        };
        if !host.is_some_and(|(name, port)| self.is_own(&name, port)) {
            return Err(Foreign::Host);
        }
        let ours = |value: &HeaderValue| {
            text(value).and_then(origin_of).is_some_and(|origin| self.is_welcome(&origin))
        };
        // Only browsers send one.
        if parts.headers.get_all(ORIGIN).iter().all(ours) { Ok(()) } else { Err(Foreign::Origin) }
    }

    fn is_own(&self, name: &str, port: Option<u16>) -> bool {
        LOOPBACK.contains(&name)
            || self.hosts.iter().any(|(own, at)| own == name && (at.is_none() || *at == port))
    }

    fn is_welcome(&self, (scheme, name, port): &(String, String, Option<u16>)) -> bool {
        let local = matches!(scheme.as_str(), "http" | "https") && LOOPBACK.contains(&name.as_str());
        let listed = |(known, own, at): &(String, String, Option<u16>)| {
            known == scheme && own == name && (at.is_none() || at == port)
        };
        local || self.origins.iter().any(listed)
    }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

fn host_of(text: &str) -> Option<(String, Option<u16>)> {
    let authority: Authority = text.parse().ok()?;
    let host = authority.host();
    // What stands before the host is a user, and no part of its name.
    let port = match authority.as_str().strip_prefix(host)? {
        "" => None,
        rest => Some(rest.strip_prefix(':')?.parse().ok()?),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    (!bare.is_empty()).then(|| (bare.to_ascii_lowercase(), port))
}

fn origin_of(text: &str) -> Option<(String, String, Option<u16>)> {
    let uri: Uri = text.parse().ok()?;
    let (name, port) = host_of(uri.authority()?.as_str())?;
    let nothing_more = matches!(uri.path(), "" | "/") && uri.query().is_none();
    nothing_more.then_some((uri.scheme_str()?.to_ascii_lowercase(), name, port))
}
