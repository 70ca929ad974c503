//! Where a vendor's program would find its user's login.

use std::path::Path;

use crate::env;

/// Returns where the user's login was found, if it was.
pub(crate) fn login(backend: &str) -> Option<LoginStatus> {
    let logins = backends::registry::vendor_for_backend(backend)?.logins;
    let home = env::home();
    Some(match logins.find_login(home.as_deref().map(Path::new), env::get) {
        Some(probe_env) => LoginStatus::Found(probe_env),
        None if logins.keyring => LoginStatus::Keyring(logins.advice),
        None => LoginStatus::Missing(logins.advice),
    })
}

/// Where a vendor's program would find its login. Never the login itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStatus {
    Found(String),
    /// Not in a readable place; it may be in a keyring. How to log in otherwise.
    Keyring(&'static str),
    /// How to log in.
    Missing(&'static str),
}
