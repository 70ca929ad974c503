//! Checks the `Host` and `Origin` of requests. A page from elsewhere in the user's browser can reach a server on loopback;
//! its `Origin`, or after DNS rebinding its `Host`, gives it away.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Uri};

/// The names of loopback.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The hosts and origins that are allowed in addition to loopback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OriginCheck {
    hosts: Vec<(String, Option<u16>)>,
    origins: Vec<(String, String, Option<u16>)>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OriginViolation {
    Host,
    Origin,
}

impl OriginCheck {
    /// Parses the lists of the configuration: `name` or `name:port`, and `scheme://name` with or without `:port`. Returns the
    /// first invalid entry as the error.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Result<Self, String> {
        let host = |entry: &String| parse_host(entry).ok_or_else(|| entry.clone());
        let origin = |entry: &String| parse_origin(entry).ok_or_else(|| entry.clone());
        Ok(Self {
            hosts: hosts.iter().map(host).collect::<Result<_, _>>()?,
            origins: origins.iter().map(origin).collect::<Result<_, _>>()?,
        })
    }

    /// Checks the host and the origin of a request.
    pub(super) fn check(&self, parts: &Parts) -> Result<(), OriginViolation> {
        let mut hosts = parts.headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => text(host).and_then(parse_host),
            (None, None) => parts.uri.authority().and_then(|authority| parse_host(authority.as_str())),
            // With two headers, each reader may see a different one.
            _ => None,
        };
        if !host.is_some_and(|(name, port)| self.is_own_host(&name, port)) {
            return Err(OriginViolation::Host);
        }
        let ours = |value: &HeaderValue| {
            text(value).and_then(parse_origin).is_some_and(|origin| self.is_allowed_origin(&origin))
        };
        // Only browsers send one.
        if parts.headers.get_all(ORIGIN).iter().all(ours) { Ok(()) } else { Err(OriginViolation::Origin) }
    }

    fn is_own_host(&self, name: &str, port: Option<u16>) -> bool {
        LOOPBACK.contains(&name)
            || self.hosts.iter().any(|(own, at)| own == name && (at.is_none() || *at == port))
    }

    fn is_allowed_origin(&self, (scheme, name, port): &(String, String, Option<u16>)) -> bool {
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

fn parse_host(text: &str) -> Option<(String, Option<u16>)> {
    let authority: Authority = text.parse().ok()?;
    let host = authority.host();
    // Text before the host is a user name, which is refused.
    let port = match authority.as_str().strip_prefix(host)? {
        "" => None,
        rest => Some(rest.strip_prefix(':')?.parse().ok()?),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    (!bare.is_empty()).then(|| (bare.to_ascii_lowercase(), port))
}

fn parse_origin(text: &str) -> Option<(String, String, Option<u16>)> {
    let uri: Uri = text.parse().ok()?;
    let (name, port) = parse_host(uri.authority()?.as_str())?;
    let nothing_more = matches!(uri.path(), "" | "/") && uri.query().is_none();
    nothing_more.then_some((uri.scheme_str()?.to_ascii_lowercase(), name, port))
}
