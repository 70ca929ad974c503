//! Finds out what this machine allows by trying it with the means of a run. Leaves nothing behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use backends::program::{LocatedProgram, ProgramSpec, ProgramVersion, TestedVersions};
use backends::registry::ProgramBackend;
use domain::launch::LaunchOverrides;
use domain::run::{Containment, ContainmentDemand};
use process::{self, AgentRequest, CgroupUse, ResourceLimits, Stdin};

use super::live_probe::ProbeResult;
use crate::programs::login::{LoginStatus, login};

/// The results of all probes. A probe that failed has its reason.
#[derive(Debug, Clone)]
pub struct MachineReport {
    pub state: Result<StateDirectory, String>,
    /// The containment of an ordinary run.
    pub ordinary: Result<Containment, String>,
    /// Whether a run that demands `containment: strict` would be accepted.
    pub strict: Result<(), String>,
    pub pidfd: Result<(), String>,
    pub process: ProcessSurroundings,
    pub vendors: Vec<VendorProgram>,
    pub services: Vec<ServiceKey>,
    pub sandboxes: Sandboxes,
}

/// The means for sandboxes of agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandboxes {
    /// `None` if the kernel does not report it.
    pub landlock: Option<u32>,
    /// Programs that are installed.
    pub programs: Vec<&'static str>,
}

/// A backend's program, its path, and a warning about its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorProgram {
    pub backend: &'static str,
    /// Another backend that drives the same program, and reports about it.
    pub same_program_as: Option<&'static str>,
    /// The command that is started, and its version.
    pub found: Option<(String, Option<String>)>,
    pub version_warning: Option<String>,
    pub login: Option<LoginStatus>,
    /// Only if it was probed.
    pub probe: Option<ProbeResult>,
}

/// Whether there is a key for a model service. Never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceKey {
    pub backend: &'static str,
    /// The variable that is set, or the one that could be.
    pub variable: &'static str,
    pub is_set: bool,
}

/// The directory of all runs, existing or not.
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

/// The environment of this process, which a run may not be able to outlive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessSurroundings {
    pub is_init: bool,
    pub in_container: bool,
    /// This process was started by an agent of a run.
    pub inside_run: bool,
    /// The service whose end would kill everything in it.
    pub service: Option<String>,
}

impl MachineReport {
    /// Probes this machine.
    pub fn probe() -> Self {
        let pid = rustix::process::getpid();
        Self {
            state: probe_state(),
            ordinary: try_containment(ContainmentDemand::Auto),
            strict: try_containment(ContainmentDemand::Strict).map(|_| ()),
            pidfd: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
                .map(|_| ())
                .map_err(|error| error.to_string()),
            process: probe_surroundings(),
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
        programs: programs
            .filter(|name| system_files::find_program(name.as_ref(), &path).is_some())
            .collect(),
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
    let key = |service: &backends::api::Provider| {
        let variable = service.keys.iter().copied().find(|name| is_set(name));
        let first = service.keys.first().copied().unwrap_or_default();
        ServiceKey {
            backend: service.backend,
            variable: variable.unwrap_or(first),
            is_set: variable.is_some(),
        }
    };
    backends::api::services().map(key).collect()
}

/// Looks for the program of every vendor. Asks a program for its version if its package does not name one.
fn probe_vendors() -> Vec<VendorProgram> {
    backends::registry::program_backends()
        .map(|ProgramBackend { backend, program, same_program_as }| {
            let found = crate::programs::vendor_programs::find(program, &LaunchOverrides::default());
            let version = found.as_ref().map(crate::programs::vendor_programs::version);
            VendorProgram {
                backend,
                same_program_as,
                login: found.as_ref().filter(|_| same_program_as.is_none()).and_then(|_| login(backend)),
                probe: None,
                version_warning: version.as_ref().and_then(|version| program.version_warning(version)),
                found: found
                    .zip(version)
                    .map(|(found, version)| (found.argv.join(" "), shown_version(program, &found, &version))),
            }
        })
        .collect()
}

/// Returns a version for the user: both versions if the package has other version numbers than its program.
fn shown_version(program: &ProgramSpec, found: &LocatedProgram, version: &ProgramVersion) -> Option<String> {
    let own = match (program.tested_versions, version) {
        (TestedVersions::Packaged { .. }, ProgramVersion::Package(_)) => {
            crate::programs::vendor_programs::version(&LocatedProgram {
                version: None,
                argv: found.argv.clone(),
            })
        }
        _ => return version.text().map(ToOwned::to_owned),
    };
    let package = version.text().unwrap_or_default();
    Some(match own.text() {
        Some(own) => format!("{own} (package {package})"),
        None => format!("package {package}"),
    })
}

/// Starts this program like an agent, and ends it at once.
fn try_containment(demand: ContainmentDemand) -> Result<Containment, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let request = AgentRequest {
        argv: vec![program.into_os_string(), "--version".into()],
        env: Vec::new(),
        directory: PathBuf::from("/"),
        stdin: Stdin::Null,
        unread_bytes: 0,
        tag: crate::clock::new_tag(),
        // Limits for which a control group is made, if possible.
        limits: ResourceLimits {
            memory_bytes: Some(1 << 30),
            processes: Some(64),
            ..ResourceLimits::default()
        },
        demand,
        cgroup: CgroupUse::WhereUseful,
        confinement: None,
    };
    let mut started = process::spawn_agent(&request).map_err(|error| error.to_string())?;
    started.agent.sweep().map_err(|error| format!("the probe could not be ended: {error}"))?;
    Ok(started.agent.containment.clone())
}

fn probe_state() -> Result<StateDirectory, String> {
    let path = crate::env::state_home()
        .ok_or("VOLERY_HOME, or HOME if that is not set, must be an absolute path")?;
    // Before the first run it does not exist, and the directory counts in which it would be created.
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/")).to_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let resolved = existing.canonicalize().unwrap_or_else(|_| existing.clone());
    let owner = fs::metadata(&existing).map_err(|error| format!("{}: {error}", existing.display()))?.uid();
    let space = rustix::fs::statvfs(&existing).ok();
    Ok(StateDirectory {
        exists: path.exists(),
        filesystem: filesystem_type(&mounts, &resolved),
        free_bytes: space.map(|space| space.f_bavail.saturating_mul(space.f_frsize)),
        owned: existing != path || owner == rustix::process::geteuid().as_raw(),
        writable: rustix::fs::access(&existing, rustix::fs::Access::WRITE_OK).is_ok(),
        path,
    })
}

/// Returns the type of the filesystem that a path is on, from `/proc/self/mountinfo`.
pub fn filesystem_type(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        Some((point, kind.split(' ').next()?))
    });
    // The last of several mounts on one point is the visible one.
    let on_path = mounts.filter(|(point, _)| path.starts_with(point));
    on_path.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

fn probe_surroundings() -> ProcessSurroundings {
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    ProcessSurroundings {
        is_init: std::process::id() == 1,
        in_container: ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists()),
        inside_run: !matches!(crate::ipc::relay::own_run_tag(), Ok(None)),
        service: service_from_cgroup(&cgroup),
    }
}

/// Returns the service at the end of the control group path. A service above it, such as `user@1000.service` above a
/// terminal's scope, does not end with the terminal.
pub fn service_from_cgroup(cgroup: &str) -> Option<String> {
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let last_parts = paths.filter_map(|path| path.rsplit('/').next());
    last_parts.into_iter().find(|part| part.ends_with(".service")).map(str::to_owned)
}
