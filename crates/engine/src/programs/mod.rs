//! Vendors' programs and container engines on this machine.

pub(crate) mod container_engine;
pub(crate) mod login;
pub mod vendor_programs;
mod version_cache;
mod version_probe;

pub use login::{LoginStatus, unset_key_variables};
