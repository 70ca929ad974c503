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

/// Returns the variables of which one must hold the key for a backend, if none is set. Empty if one is set, or if the
/// program can log in otherwise.
pub fn unset_key_variables(backend: &str) -> Vec<&'static str> {
    let vendor = backends::registry::vendor_by_name(backend);
    let variables = vendor.map(|vendor| vendor.logins.only_variables()).unwrap_or_default();
    match variables.iter().any(|name| env::get(name).is_some()) {
        true => Vec::new(),
        false => variables,
    }
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
