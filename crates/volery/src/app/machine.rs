//! What this machine allows: found by trying, with the means that a run would use. Leaves nothing behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use backend::process::{self, AgentRequest, CgroupUse, ResourceLimits, Stdin};
use backend::program::{Found, Program, Tried, Version};
use backend::registry::Vendor;
use domain::launch::Launch;
use domain::run::{Containment, ContainmentDemand};

use super::contract::{self, Contract, LoginFound};

/// The facts that the examination goes by. A probe that failed says why.
#[derive(Debug, Clone)]
pub struct Machine {
    pub state: Result<StateDirectory, String>,
    /// What an ordinary run would be contained by.
    pub ordinary: Result<Containment, String>,
    /// Whether a run that demands `containment: strict` would be accepted.
    pub strict: Result<(), String>,
    pub pidfd: Result<(), String>,
    pub surroundings: Surroundings,
    pub vendors: Vec<VendorProgram>,
    pub services: Vec<ServiceKey>,
    pub sandboxes: Sandboxes,
}

/// What sandboxes of agents can be made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandboxes {
    /// `None` if the kernel does not tell.
    pub landlock: Option<u32>,
    /// Programs that are installed.
    pub programs: Vec<&'static str>,
}

/// A backend's program, where it is, and what is to be said about its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorProgram {
    pub backend: &'static str,
    /// Another backend that drives the same program, and says what is to be said about that.
    pub shares: Option<&'static str>,
    /// What is started, and its version.
    pub found: Option<(String, Option<String>)>,
    pub doubt: Option<String>,
    pub login: Option<LoginFound>,
    /// Only if it was tried.
    pub contract: Option<Contract>,
}

/// Whether there is a key for a service that is asked without a program. Never what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceKey {
    pub backend: &'static str,
    /// The variable that is set, or the one that could be.
    pub variable: &'static str,
    pub is_set: bool,
}

/// The directory that all runs are kept in, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDirectory {
    pub path: PathBuf,
    pub exists: bool,
    /// The type of its filesystem, as the kernel names it.
    pub filesystem: Option<String>,
    pub free_bytes: Option<u64>,
    pub owned: bool,
    pub writable: bool,
}

/// What a run of this shell could not outlive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub is_init: bool,
    pub in_container: bool,
    /// This shell was started by an agent of a run.
    pub inside_run: bool,
    /// The service whose end would kill everything in it.
    pub service: Option<String>,
}

impl Machine {
    /// Looks at this machine.
    pub fn probe() -> Self {
        let pid = rustix::process::getpid();
        Self {
            state: probe_state(),
            ordinary: try_containment(ContainmentDemand::Auto),
            strict: try_containment(ContainmentDemand::Strict).map(|_| ()),
            pidfd: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
                .map(|_| ())
                .map_err(|error| error.to_string()),
            surroundings: probe_surroundings(),
            vendors: probe_vendors(),
            services: probe_services(),
            sandboxes: probe_sandboxes(),
        }
    }
}

fn probe_sandboxes() -> Sandboxes {
    let path = crate::env::get("PATH").unwrap_or_default();
    let programs = ["bwrap", "docker", "podman"].into_iter();
    Sandboxes {
        landlock: landlock(),
        programs: programs.filter(|name| process::find_program(name.as_ref(), &path).is_some()).collect(),
    }
}

/// Returns the version of Landlock that the kernel offers to this process.
#[cfg(target_os = "linux")]
fn landlock() -> Option<u32> {
    process::landlock_version().ok()
}

#[cfg(not(target_os = "linux"))]
fn landlock() -> Option<u32> {
    None
}

fn probe_services() -> Vec<ServiceKey> {
    let is_set = |name: &str| crate::env::get(name).is_some_and(|value| !value.is_empty());
    let key = |service: &backend::api::Provider| {
        let variable = service.keys.iter().copied().find(|name| is_set(name));
        let first = service.keys.first().copied().unwrap_or_default();
        ServiceKey {
            backend: service.backend,
            variable: variable.unwrap_or(first),
            is_set: variable.is_some(),
        }
    };
    backend::api::services().map(key).collect()
}

/// Looks for the program of every vendor. One that no package tells the version of is asked for it.
fn probe_vendors() -> Vec<VendorProgram> {
    let vendors = backend::registry::vendors();
    vendors
        .map(|Vendor { backend, program, shares }| {
            let found = crate::programs::find(program, &Launch::default());
            let version = found.as_ref().map(crate::programs::version);
            VendorProgram {
                backend,
                shares,
                login: found.as_ref().filter(|_| shares.is_none()).and_then(|_| contract::login(backend)),
                contract: None,
                doubt: version.as_ref().and_then(|version| program.doubt(version)),
                found: found
                    .zip(version)
                    .map(|(found, version)| (found.argv.join(" "), shown_version(program, &found, &version))),
            }
        })
        .collect()
}

/// Returns a version as the user sees it: where the package counts in another way than its program, by both.
fn shown_version(program: &Program, found: &Found, version: &Version) -> Option<String> {
    let own = match (program.tried, version) {
        (Tried::Packaged { .. }, Version::Package(_)) => {
            crate::programs::version(&Found { version: None, argv: found.argv.clone() })
        }
        _ => return version.text().map(ToOwned::to_owned),
    };
    let package = version.text().unwrap_or_default();
    Some(match own.text() {
        Some(own) => format!("{own} (package {package})"),
        None => format!("package {package}"),
    })
}

/// Starts this program as an agent would be started, and ends it at once.
fn try_containment(demand: ContainmentDemand) -> Result<Containment, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let request = AgentRequest {
        argv: vec![program.into_os_string(), "--version".into()],
        env: Vec::new(),
        directory: PathBuf::from("/"),
        stdin: Stdin::Null,
        unread_bytes: 0,
        tag: crate::clock::new_tag(),
        // Limits for which a control group is made, if one can be.
        limits: ResourceLimits {
            memory_bytes: Some(1 << 30),
            processes: Some(64),
            ..ResourceLimits::default()
        },
        demand,
        cgroup: CgroupUse::WhereUseful,
    };
    let mut started = process::spawn_agent(&request).map_err(|error| error.to_string())?;
    started.agent.sweep().map_err(|error| format!("the probe could not be ended: {error}"))?;
    Ok(started.agent.containment.clone())
}

fn probe_state() -> Result<StateDirectory, String> {
    let path = crate::env::state_home()
        .ok_or("VOLERY_HOME, or HOME if that is not set, must be an absolute path")?;
    // Before the first run there is none, and what counts is where it would be made.
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/")).to_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let resolved = existing.canonicalize().unwrap_or_else(|_| existing.clone());
    let owner = fs::metadata(&existing).map_err(|error| format!("{}: {error}", existing.display()))?.uid();
    let space = rustix::fs::statvfs(&existing).ok();
    Ok(StateDirectory {
        exists: path.exists(),
        filesystem: filesystem_of(&mounts, &resolved),
        free_bytes: space.map(|space| space.f_bavail.saturating_mul(space.f_frsize)),
        owned: existing != path || owner == rustix::process::geteuid().as_raw(),
        writable: rustix::fs::access(&existing, rustix::fs::Access::WRITE_OK).is_ok(),
        path,
    })
}

/// Returns the type of the filesystem that a path is on, from `/proc/self/mountinfo`.
pub fn filesystem_of(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        Some((point, kind.split(' ').next()?))
    });
    // The last of several mounts on one point is the one that is seen.
    let on_path = mounts.filter(|(point, _)| path.starts_with(point));
    on_path.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

fn probe_surroundings() -> Surroundings {
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Surroundings {
        is_init: std::process::id() == 1,
        in_container: ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists()),
        inside_run: !matches!(super::relay::own_run_tag(), Ok(None)),
        service: service_of(&cgroup),
    }
}

/// Returns the service at the end of the control group path. A service above it, as `user@1000.service` over a
/// terminal's scope, does not end with the terminal.
pub fn service_of(cgroup: &str) -> Option<String> {
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let last_parts = paths.filter_map(|path| path.rsplit('/').next());
    last_parts.into_iter().find(|part| part.ends_with(".service")).map(str::to_owned)
}
