//! The name of a run's container, and the variables that the commands for containers read.

use domain::run::RunSpec;

/// The environment variables that the docker and podman clients read.
pub const VARIABLES: &[&str] = &[
    "CONTAINER_HOST",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
];

/// Returns the name of a run's container.
pub fn container_name(spec: &RunSpec) -> String {
    format!("volery-{}", spec.id)
}
