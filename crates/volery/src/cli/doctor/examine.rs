//! Turns facts about the machine into findings. Pure.

use domain::run::Containment;
use domain::size::display_bytes;

use crate::report::{Check, Grade, count};
use engine::{
    EngineError, LoginStatus, MachineReport, ProbeResult, ProcessSurroundings, Sandboxes, ServiceKey,
    StateDirectory, StateReport, TrustState, VendorProgram,
};

/// Filesystems on which locks or fsync cannot be relied on.
const NETWORK: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "fuse.sshfs", "afs"];
/// Less free space than this is too little for a run's output.
const SPACE_NEEDED: u64 = 128 << 20;

/// Returns all findings about the machine and the state.
pub(crate) fn examine(machine: &MachineReport, state: Result<&StateReport, &EngineError>) -> Vec<Check> {
    let mut checks = vec![state_directory(&machine.state)];
    if let Ok(directory) = &machine.state {
        checks.push(space(directory));
    }
    match &machine.ordinary {
        Ok(contained) => {
            checks.push(pid_namespace(contained, &machine.strict));
            checks.push(cgroup(contained));
        }
        Err(reason) => checks.push(Check::new("starting an agent", Grade::Missing, reason)),
    }
    checks.push(pidfd(&machine.pidfd));
    checks.push(surroundings(&machine.process));
    checks.push(sandboxes(&machine.sandboxes));
    checks.extend(vendors(&machine.vendors));
    checks.extend(services(&machine.services));
    match state {
        Ok(report) => checks.extend(engine(report)),
        // Inside a run the engine does not report on itself.
        Err(_) if machine.process.inside_run => {}
        Err(error) => {
            let check = Check::new("engine", Grade::Missing, &error.message);
            checks.push(match &error.hint {
                Some(hint) => check.advice(hint),
                None => check,
            });
        }
    }
    checks
}

/// Returns one line for each installed program, and one for all others.
fn vendors(vendors: &[VendorProgram]) -> Vec<Check> {
    let login_for = |backend: &str| vendors.iter().find(|vendor| vendor.backend == backend)?.login.as_ref();
    let mut checks: Vec<Check> = Vec::new();
    for (at, one) in vendors.iter().enumerate() {
        let login = one.same_program_as.map_or(one.login.as_ref(), login_for);
        checks.extend(unused_service(one, &vendors[..at]).or_else(|| vendor(one, login)));
    }
    let absent = vendors.iter().filter(|vendor| vendor.found.is_none());
    let absent: Vec<&str> = absent.map(|vendor| vendor.backend).collect();
    if !absent.is_empty() {
        checks.push(
            Check::new("not installed", Grade::Absent, absent.join(", "))
                .advice(format!("to use one, install it: {}", install_hints(&absent).join("; "))),
        );
    }
    checks
}

/// Returns how to install these programs, without duplicates.
fn install_hints(absent: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for backend in absent {
        let Some(program) = backends::registry::by_kind(backend).and_then(|backend| backend.program()) else {
            continue;
        };
        // Several backends share a program.
        if !lines.iter().any(|known| known.ends_with(program.install)) {
            lines.push(format!("{backend}: {}", program.install));
        }
    }
    lines
}

/// Returns one line for all services that need no program.
fn services(services: &[ServiceKey]) -> Option<Check> {
    let (known, unknown): (Vec<&ServiceKey>, Vec<&ServiceKey>) =
        services.iter().partition(|service| service.is_set);
    let known = known.iter().map(|service| format!("{} by {}", service.backend, service.variable));
    let mut found: Vec<String> = known.collect();
    if found.is_empty() && unknown.is_empty() {
        return None;
    }
    let grade = if found.is_empty() { Grade::Absent } else { Grade::Ok };
    if found.is_empty() {
        found.push("no key set (optional)".to_owned());
    }
    let check = Check::new("model APIs", grade, found.join("; "));
    let variables: Vec<&str> = unknown.iter().map(|service| service.variable).collect();
    Some(match variables.is_empty() {
        true => check,
        false if grade == Grade::Absent => check.advice(format!("to use one, set {}", variables.join(", "))),
        false => check.advice(format!("to use another one, set {}", variables.join(", "))),
    })
}

/// Returns the finding about another service for a program that is listed before, such as `glm` for Claude Code. Without a key
/// nothing is wrong: the user has no account there.
fn unused_service(service: &VendorProgram, before: &[VendorProgram]) -> Option<Check> {
    let (program, _) = service.found.as_ref()?;
    let Some(LoginStatus::Missing(advice)) = &service.login else { return None };
    let uses_program = |other: &&VendorProgram| other.found.as_ref().is_some_and(|(path, _)| path == program);
    let owner = before.iter().find(uses_program)?;
    let found = format!("no key set (optional); it uses the program of {}", owner.backend);
    Some(Check::new(service.backend, Grade::Absent, found).advice(format!("to use it, {advice}")))
}

/// Returns the finding about a program. `login_used` is the login that it uses, even if another backend reports it.
fn vendor(vendor: &VendorProgram, login_used: Option<&LoginStatus>) -> Option<Check> {
    let (program, version) = vendor.found.as_ref()?;
    let found = match (vendor.same_program_as, version) {
        (Some(other), _) => format!("the program of {other}"),
        (None, Some(version)) => format!("{version} as {program}"),
        (None, None) => format!("of an unknown version, as {program}"),
    };
    let parts = [Some(found), vendor.login.as_ref().map(login), vendor.probe.as_ref().map(contract)];
    let found = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let grade = match (&vendor.version_warning, login_used) {
        (Some(_), _) | (None, Some(LoginStatus::Missing(_))) => Grade::Weak,
        (None, Some(LoginStatus::Keyring(_))) => Grade::Unknown,
        (None, Some(LoginStatus::Found(_)) | None) => Grade::Ok,
    };
    Some(match (&vendor.probe, &vendor.version_warning, &vendor.login) {
        (Some(ProbeResult::Failed(_)), doubt, _) => {
            let version = match (doubt, version) {
                (Some(doubt), _) => doubt.as_str(),
                (None, Some(_)) => "its version is one that volery was tried with",
                (None, None) => "its version is not known",
            };
            let advice = format!("runs of {} would fail like this: {version}", vendor.backend);
            Check::new(vendor.backend, Grade::Broken, found).advice(advice)
        }
        // The line of the other backend has the advice about the program.
        _ if vendor.same_program_as.is_some() => Check::new(vendor.backend, grade, found),
        (_, doubt, login) => {
            let check = Check::new(vendor.backend, grade, found);
            let advice: Vec<String> =
                doubt.iter().cloned().chain(login.as_ref().and_then(login_advice)).collect();
            if advice.is_empty() { check } else { check.advice(advice.join("; ")) }
        }
    })
}

/// Returns the advice about a login that was not found.
fn login_advice(found: &LoginStatus) -> Option<String> {
    match found {
        LoginStatus::Found(_) => None,
        LoginStatus::Keyring(advice) => Some(format!("if you are not logged in, {advice}")),
        LoginStatus::Missing(advice) => Some((*advice).to_owned()),
    }
}

fn login(found: &LoginStatus) -> String {
    match found {
        LoginStatus::Found(location) => format!("a login in {location}"),
        LoginStatus::Keyring(_) => "login not known: no variable or file holds one".to_owned(),
        LoginStatus::Missing(_) => "no login".to_owned(),
    }
}

fn contract(tried: &ProbeResult) -> String {
    match tried {
        ProbeResult::Passed { took_ms } => format!("contract ok ({} s)", seconds(*took_ms)),
        ProbeResult::Failed(reason) => format!("contract broken: {reason}"),
        ProbeResult::Skipped(reason) => format!("contract not tried: {reason}"),
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{}", ms / 1_000, ms % 1_000 / 100)
}

fn sandboxes(found: &Sandboxes) -> Check {
    const NAME: &str = "sandboxes";
    let landlock = match found.landlock {
        Some(version) => format!("landlock {version}"),
        None => "no landlock".to_owned(),
    };
    let programs = match found.programs.is_empty() {
        true => "no bwrap, docker or podman".to_owned(),
        false => found.programs.join(", "),
    };
    let check = format!("{landlock}; {programs}");
    if found.landlock.is_some() || found.programs.contains(&"bwrap") {
        return Check::new(NAME, Grade::Ok, check);
    }
    Check::new(NAME, Grade::Weak, check).advice(
        "install bubblewrap: without it some vendors' programs refuse or ask where they would use a sandbox",
    )
}

fn state_directory(state: &Result<StateDirectory, String>) -> Check {
    const NAME: &str = "state directory";
    let directory = match state {
        Ok(directory) => directory,
        Err(reason) => return Check::new(NAME, Grade::Missing, reason).advice("set VOLERY_HOME"),
    };
    let path = directory.path.display();
    let filesystem = directory.filesystem.as_deref().unwrap_or("an unknown filesystem");
    if NETWORK.contains(&filesystem) {
        return Check::new(
            NAME,
            Grade::Missing,
            format!("{path} is on {filesystem}, where locks cannot be trusted"),
        )
        .advice("set VOLERY_HOME to a directory on a local disk");
    }
    if !directory.owned {
        return Check::new(NAME, Grade::Missing, format!("{path} belongs to another user"))
            .advice("set VOLERY_HOME to a directory of your own");
    }
    if !directory.writable {
        return Check::new(NAME, Grade::Missing, format!("{path} cannot be written"))
            .advice("make it writable, or set VOLERY_HOME to another directory");
    }
    let made = if directory.exists { "" } else { ", made with the first run" };
    match filesystem {
        "tmpfs" | "ramfs" => {
            Check::new(NAME, Grade::Weak, format!("{path} on {filesystem}: gone after a reboot"))
                .advice("set VOLERY_HOME to a directory on a disk")
        }
        _ => Check::new(NAME, Grade::Ok, format!("{path} on {filesystem}{made}")),
    }
}

fn space(directory: &StateDirectory) -> Check {
    const NAME: &str = "free space";
    match directory.free_bytes {
        None => Check::new(NAME, Grade::Weak, "not known"),
        Some(bytes) if bytes < SPACE_NEEDED => {
            Check::new(NAME, Grade::Missing, format!("{} only", display_bytes(bytes)))
                .advice("volery clean --older-than 1d, or make room on that disk")
        }
        Some(bytes) => Check::new(NAME, Grade::Ok, display_bytes(bytes)),
    }
}

fn pid_namespace(contained: &Containment, strict: &Result<(), String>) -> Check {
    const NAME: &str = "pid namespaces";
    if contained.pid_namespace {
        return Check::new(NAME, Grade::Ok, "every process of a run dies with it, whatever is killed");
    }
    let later = "what a killed keeper leaves is found at the next look";
    match strict {
        Ok(()) => {
            Check::new(NAME, Grade::Weak, format!("only for agents with containment: strict; else {later}"))
                .advice("write containment: strict into the agents that must not leave anything")
        }
        Err(reason) => Check::new(NAME, Grade::Weak, format!("{reason}; {later}"))
            .advice("allow unprivileged user namespaces, or run with CAP_SYS_ADMIN"),
    }
}

fn cgroup(contained: &Containment) -> Check {
    const NAME: &str = "cgroups";
    match &contained.cgroup {
        Some(version) => {
            Check::new(NAME, Grade::Ok, format!("{version}: limits hold for a run's whole tree"))
        }
        None => {
            let reasons: Vec<&str> = contained.missing.iter().map(String::as_str).collect();
            let reasons = reasons.into_iter().filter(|reason| reason.contains("group"));
            let reasons = reasons.collect::<Vec<_>>().join("; ");
            let reason = if reasons.is_empty() { "none can be written" } else { reasons.as_str() };
            let found = format!("{reason}; limits are kept by rlimits and by watching the tree");
            Check::new(NAME, Grade::Weak, found).advice(
                "delegate a cgroup, for example: systemd-run --user --scope -p Delegate=yes volery serve",
            )
        }
    }
}

fn pidfd(found: &Result<(), String>) -> Check {
    const NAME: &str = "pidfd";
    match found {
        Ok(()) => Check::new(NAME, Grade::Ok, "a process is never mistaken for another with its number"),
        Err(reason) => {
            Check::new(NAME, Grade::Missing, reason).advice("a kernel of version 5.3 or later has it")
        }
    }
}

fn surroundings(found: &ProcessSurroundings) -> Check {
    const NAME: &str = "surroundings";
    if found.inside_run {
        let found = "inside a run: this shell sees and ends only that run's own child runs";
        return Check::new(NAME, Grade::Weak, found).advice("ask again from a shell outside of all runs");
    }
    if found.is_init {
        return Check::new(NAME, Grade::Weak, "this is process 1: when it ends, every run ends with it")
            .advice("start the container with an init (docker run --init), and volery below it");
    }
    if let Some(service) = &found.service {
        let found = format!("inside {service}: stopping it kills every run in it");
        return Check::new(NAME, Grade::Weak, found).advice("set KillMode=process in the unit");
    }
    if found.in_container {
        return Check::new(NAME, Grade::Ok, "a container: runs outlive their client, not the container");
    }
    Check::new(NAME, Grade::Ok, "runs outlive whoever asked for them")
}

fn engine(report: &StateReport) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.push(match &report.index.problem {
        None => {
            let runs = if report.index.runs == 1 { "run" } else { "runs" };
            Check::new("index", Grade::Ok, format!("{} ended {runs}", count(report.index.runs)))
        }
        Some(problem) => Check::new("index", Grade::Weak, problem).advice("volery reindex"),
    });
    let slots = &report.slots;
    let found = format!("{} of {} taken, {} waiting", slots.used, slots.total, slots.queued);
    checks.push(Check::new("slots", Grade::Ok, found));
    checks.push(configuration(report));
    checks.push(trust(report));
    checks
}

fn configuration(report: &StateReport) -> Check {
    const NAME: &str = "configuration";
    let files: Vec<String> =
        report.config.iter().map(|file| format!("{} ({})", file.path, file.layer)).collect();
    let found = if files.is_empty() { "no files, only defaults".to_owned() } else { files.join(", ") };
    let findings = report.config.iter().map(|file| file.diagnostics.len()).sum::<usize>();
    let wrong = report.config.iter().flat_map(|file| &file.diagnostics).any(|finding| finding.is_error());
    match (findings, wrong) {
        (0, _) => Check::new(NAME, Grade::Ok, found),
        (_, true) => {
            Check::new(NAME, Grade::Missing, found).advice("volery agents check tells what is wrong")
        }
        (_, false) => Check::new(NAME, Grade::Weak, found).advice("volery agents check tells the warnings"),
    }
}

fn trust(report: &StateReport) -> Check {
    const NAME: &str = "trust";
    let project = &report.trust.project;
    match report.trust.state {
        TrustState::NothingToTrust => Check::new(NAME, Grade::Ok, format!("{project} executes nothing")),
        TrustState::Trusted => Check::new(NAME, Grade::Ok, format!("{project} is trusted")),
        TrustState::Untrusted => {
            let found = format!("{project} names programs or widens grants, and is not trusted");
            Check::new(NAME, Grade::Weak, found).advice("volery trust lists them and asks")
        }
        TrustState::Changed => {
            Check::new(NAME, Grade::Weak, format!("{project} has changed since it was trusted"))
                .advice("volery trust shows what it names now, and asks")
        }
    }
}
