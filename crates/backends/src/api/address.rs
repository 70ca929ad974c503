//! Where a request goes, and whether a key may go there.

use std::net::IpAddr;
use std::sync::Arc;

use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// An address that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Without a slash at its end.
    url: String,
    /// It is on this machine.
    pub(super) is_local: bool,
    pub(super) is_encrypted: bool,
}

impl Address {
    /// Returns the address followed by a path. Some users write the version into the address, which the path has too.
    pub(super) fn with(&self, path: &str) -> String {
        let version = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        match self.url.strip_suffix(version).filter(|_| version.starts_with('v')) {
            Some(without) if without.ends_with('/') => format!("{}{path}", without.trim_end_matches('/')),
            Some(_) | None => format!("{}{path}", self.url),
        }
    }
}

/// Parses an address. A key leaves this machine only encrypted.
pub(super) fn parse(text: &str, with_key: bool) -> Result<Address, String> {
    let shown = domain::size::head(text, 200);
    let uri: Uri = text.trim().parse().map_err(|error| format!("{shown:?} is no address: {error}"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(format!("{shown:?} is no address: write for example https://host/v1"));
    };
    if authority.as_str().contains('@') || uri.query().is_some() {
        // Nothing of it is shown: it may hold a password.
        return Err(
            "the address of the service has a user or a query in it; keys are given by variables".to_owned()
        );
    }
    let is_local = is_local(authority.host());
    let is_encrypted = match scheme {
        "https" => true,
        "http" if is_local || !with_key => false,
        "http" => return Err(format!("{shown:?} is not encrypted, so no key is sent there: write https")),
        other => return Err(format!("{shown:?} is no address of a service: {other} is not https")),
    };
    Ok(Address { url: text.trim().trim_end_matches('/').to_owned(), is_local, is_encrypted })
}

fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the trusted roots: those that `SSL_CERT_FILE` or `SSL_CERT_DIR` name, otherwise the system's, otherwise
/// those that are bundled with this program.
pub(super) fn tls(value: &dyn Fn(&str) -> Option<String>) -> Result<TlsConfig, String> {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().find(|name| value(name).is_some());
    let found = rustls_native_certs::load_native_certs();
    let roots: Vec<Certificate<'static>> =
        found.certs.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    let roots = match (roots.is_empty(), named) {
        (false, _) => RootCerts::Specific(Arc::new(roots)),
        (true, None) => RootCerts::WebPki,
        (true, Some(name)) => {
            let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(format!("there is no certificate where {name} says{why}"));
        }
    };
    Ok(TlsConfig::builder().root_certs(roots).build())
}
