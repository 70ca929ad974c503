//! Control groups: a group per run that holds its tree, limits it, counts it, and can be killed as a whole.
//!
//! Version 2 where it offers what is needed, else version 1, hierarchy by hierarchy. A group is made only below the
//! group that this process is in, or below one that was delegated to it: nobody's limits are escaped.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::tags::hex;

/// How long an emptied group may take to become removable.
const REMOVAL: Duration = Duration::from_millis(500);
/// Bounds of the search for a group that another process has made.
const SEARCH_DEPTH: usize = 8;
const SEARCH_FOLDERS: usize = 4096;

/// What a group is wanted for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) memory_bytes: Option<u64>,
    pub(super) processes: Option<u64>,
    /// To count the CPU time of the whole tree, also of those that have ended.
    pub(super) cpu: bool,
    /// To kill the whole tree at once.
    pub(super) kill: bool,
}

/// The groups of one run.
#[derive(Debug, Default)]
pub(super) struct Cgroup {
    unified: Option<PathBuf>,
    memory: Option<Limited>,
    processes: Option<Limited>,
    cpu: Option<PathBuf>,
    /// Every folder that was made, one per hierarchy.
    folders: Vec<PathBuf>,
}

/// What a process joins the groups of a run by.
#[derive(Debug)]
pub(super) struct Doors {
    pub(super) unified: Option<UnifiedDoor>,
    /// The files of threads of all hierarchies of version 1.
    pub(super) tasks: Vec<OwnedFd>,
}

/// The group of version 2.
#[derive(Debug)]
pub(super) struct UnifiedDoor {
    /// To be started in.
    pub(super) folder: OwnedFd,
    /// To be moved by, where the kernel cannot start a process in a group.
    pub(super) procs: OwnedFd,
}

/// A group in which a limit is set.
#[derive(Debug)]
struct Limited {
    folder: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Makes the groups of a run. Returns what could be had, and why the rest could not.
pub(super) fn create(tag: u64, wanted: Wanted) -> (Option<Cgroup>, Vec<String>) {
    if wanted.memory_bytes.is_none() && wanted.processes.is_none() && !wanted.cpu && !wanted.kill {
        return (None, Vec::new());
    }
    let mut group = Cgroup::default();
    let mut missing = Vec::new();
    let hierarchies = Hierarchies::read();
    if let Err(error) = group.make_unified(tag, &hierarchies, wanted) {
        missing.push(format!("control group, version 2: {error}"));
    }
    if let Err(error) = group.make_separate(tag, &hierarchies, wanted) {
        missing.push(format!("control group, version 1: {error}"));
    }
    // Only what was really missed is worth a word.
    let satisfied = (wanted.memory_bytes.is_none() || group.memory.is_some())
        && (wanted.processes.is_none() || group.processes.is_some())
        && (!wanted.cpu || group.cpu.is_some())
        && (!wanted.kill || group.unified.is_some());
    if satisfied {
        missing.clear();
    }
    ((!group.folders.is_empty()).then_some(group), missing)
}

/// Removes the groups that a run has left behind, wherever they were made, and kills what is in them.
///
/// Searches the trees of all hierarchies, so it is for runs that are known to have had a group.
pub fn remove(tag: u64) -> io::Result<()> {
    let hierarchies = Hierarchies::read();
    let name = name(tag);
    for root in hierarchies.unified.iter().chain(hierarchies.separate.iter().map(|(_, place)| place)) {
        for folder in find(&root.mount, &name) {
            // Only version 2 has the file; elsewhere the tags have found the processes.
            let _ = fs::write(folder.join("cgroup.kill"), "1");
            remove_folder(&folder)?;
        }
    }
    Ok(())
}

impl Cgroup {
    /// Returns the groups of a run that were made from where this process is, as its keeper finds those of its
    /// worker. Costs a few small reads.
    pub(super) fn existing(tag: u64) -> Option<Self> {
        let hierarchies = Hierarchies::read();
        let at = |parent: &Path| Some(parent.join(name(tag))).filter(|folder| folder.exists());
        let unified = hierarchies
            .unified
            .and_then(|place| at(&place.own).or_else(|| place.delegated().and_then(|parent| at(&parent))));
        let separate = hierarchies.separate.iter().filter_map(|(_, place)| at(&place.own));
        let folders: Vec<PathBuf> = unified.iter().cloned().chain(separate).collect();
        (!folders.is_empty()).then(|| Self { unified, folders, ..Self::default() })
    }

    pub(super) fn version(&self) -> &'static str {
        if self.folders.iter().any(|folder| Some(folder) != self.unified.as_ref()) { "v1" } else { "v2" }
    }

    pub(super) fn limits_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(super) fn limits_processes(&self) -> bool {
        self.processes.is_some()
    }

    /// Opens what a process joins the groups by.
    pub(super) fn doors(&self) -> io::Result<Doors> {
        let write = |file: PathBuf| fs::OpenOptions::new().write(true).open(file).map(OwnedFd::from);
        let unified = self.unified.as_ref().map(|folder| {
            let procs = write(folder.join("cgroup.procs"))?;
            Ok::<_, io::Error>(UnifiedDoor { folder: fs::File::open(folder)?.into(), procs })
        });
        let separate = self.folders.iter().filter(|folder| Some(*folder) != self.unified.as_ref());
        // Moving a single thread, which is what the new process has, costs microseconds. Moving a process by
        // `cgroup.procs` waits until no process of the machine forks: 13 ms where it was measured.
        let tasks = separate.map(|folder| write(folder.join("tasks"))).collect::<io::Result<_>>()?;
        Ok(Doors { unified: unified.transpose()?, tasks })
    }

    /// Kills the whole tree at once, where the kernel can, and returns how many that were.
    pub(super) fn kill_counted(&self) -> u32 {
        let Some(folder) = &self.unified else { return 0 };
        let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        match fs::write(folder.join("cgroup.kill"), "1") {
            Ok(()) => u32::try_from(members.lines().count()).unwrap_or(u32::MAX),
            // Kernels before 5.14 lack the file; the sweep by tags follows in any case.
            Err(_) => 0,
        }
    }

    /// Whether a process was killed because the tree had no memory left.
    pub(super) fn passed_memory(&self) -> bool {
        self.memory.as_ref().is_some_and(|limited| {
            let file = match limited.version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            };
            counter(&limited.folder.join(file), "oom_kill").is_some_and(|count| count > 0)
        })
    }

    /// Whether a process could not be made because the tree had too many.
    pub(super) fn passed_processes(&self) -> bool {
        self.processes.as_ref().is_some_and(|limited| {
            counter(&limited.folder.join("pids.events"), "max").is_some_and(|count| count > 0)
        })
    }

    /// Returns the CPU time of the tree so far.
    pub(super) fn cpu_ms(&self) -> Option<u64> {
        let folder = self.cpu.as_ref()?;
        if Some(folder) == self.unified.as_ref() {
            return counter(&folder.join("cpu.stat"), "usage_usec").map(|micros| micros / 1_000);
        }
        let nanos = fs::read_to_string(folder.join("cpuacct.usage")).ok()?.trim().parse::<u64>().ok()?;
        Some(nanos / 1_000_000)
    }

    /// Removes the groups, which must be empty by now.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| remove_folder(folder))
    }

    fn make_unified(&mut self, tag: u64, hierarchies: &Hierarchies, wanted: Wanted) -> io::Result<()> {
        let Some(place) = &hierarchies.unified else { return Ok(()) };
        let parent = place.delegated().unwrap_or_else(|| place.own.clone());
        let limits = wanted.memory_bytes.is_some() || wanted.processes.is_some();
        let offered = if limits { enable_controllers(&parent) } else { Vec::new() };
        let memory = wanted.memory_bytes.filter(|_| offered.iter().any(|name| name == "memory"));
        let processes = wanted.processes.filter(|_| offered.iter().any(|name| name == "pids"));
        if memory.is_none() && processes.is_none() && !wanted.cpu && !wanted.kill {
            return Ok(());
        }
        let folder = make_folder(&parent, tag)?;
        self.folders.push(folder.clone());
        if let Some(bytes) = memory {
            fs::write(folder.join("memory.max"), bytes.to_string())?;
            // Absent where there is no swap, or before 4.19.
            let _ = fs::write(folder.join("memory.swap.max"), "0");
            let _ = fs::write(folder.join("memory.oom.group"), "1");
            self.memory = Some(Limited { folder: folder.clone(), version: Version::Two });
        }
        if let Some(count) = processes {
            fs::write(folder.join("pids.max"), count.to_string())?;
            self.processes = Some(Limited { folder: folder.clone(), version: Version::Two });
        }
        if folder.join("cpu.stat").exists() {
            self.cpu = Some(folder.clone());
        }
        self.unified = Some(folder);
        Ok(())
    }

    fn make_separate(&mut self, tag: u64, hierarchies: &Hierarchies, wanted: Wanted) -> io::Result<()> {
        if let Some(bytes) = wanted.memory_bytes.filter(|_| self.memory.is_none())
            && let Some(parent) = hierarchies.separate("memory")
        {
            let folder = self.make_separate_folder(parent, tag)?;
            fs::write(folder.join("memory.limit_in_bytes"), bytes.to_string())?;
            // Memory and swap together; absent where swap is not counted.
            let _ = fs::write(folder.join("memory.memsw.limit_in_bytes"), bytes.to_string());
            self.memory = Some(Limited { folder, version: Version::One });
        }
        if let Some(count) = wanted.processes.filter(|_| self.processes.is_none())
            && let Some(parent) = hierarchies.separate("pids")
        {
            let folder = self.make_separate_folder(parent, tag)?;
            fs::write(folder.join("pids.max"), count.to_string())?;
            self.processes = Some(Limited { folder, version: Version::One });
        }
        if wanted.cpu
            && self.cpu.is_none()
            && let Some(parent) = hierarchies.separate("cpuacct")
        {
            self.cpu = Some(self.make_separate_folder(parent, tag)?);
        }
        Ok(())
    }

    /// Makes a folder unless a hierarchy with several controllers has it already.
    fn make_separate_folder(&mut self, parent: &Path, tag: u64) -> io::Result<PathBuf> {
        let folder = parent.join(name(tag));
        if !self.folders.contains(&folder) {
            self.folders.push(make_folder(parent, tag)?);
        }
        Ok(folder)
    }
}

/// A hierarchy: where it is mounted, and where this process is in it.
#[derive(Debug)]
struct Place {
    mount: PathBuf,
    own: PathBuf,
}

impl Place {
    /// Returns the nearest group above that its owner has handed over for making groups in.
    fn delegated(&self) -> Option<PathBuf> {
        self.own.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.mount)).find_map(|folder| {
            let mut value = [0_u8; 8];
            let marks = ["user.delegate", "trusted.delegate"];
            let marked = marks.iter().any(|mark| {
                rustix::fs::getxattr(folder, *mark, &mut value[..]).is_ok() && value.first() == Some(&b'1')
            });
            marked.then(|| folder.to_owned())
        })
    }
}

#[derive(Debug, Default)]
struct Hierarchies {
    unified: Option<Place>,
    /// Version 1: the controllers of each.
    separate: Vec<(Vec<String>, Place)>,
}

impl Hierarchies {
    /// Reads which hierarchies are mounted. None, where there is no such file.
    fn read() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::parse(&mounts, &membership)
    }

    fn parse(mounts: &str, membership: &str) -> Self {
        let mut hierarchies = Self::default();
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (Some(root), Some(mount), Some(kind)) = (left.get(3), left.get(4), right.first()) else {
                continue;
            };
            let options: Vec<String> = right
                .last()
                .map(|options| options.split(',').map(str::to_owned).collect())
                .unwrap_or_default();
            match *kind {
                "cgroup2" => {
                    hierarchies.unified = own_group(membership, None)
                        .map(|own| place(root, mount, own))
                        .or(hierarchies.unified);
                }
                "cgroup" => {
                    let own = options.iter().find_map(|controller| own_group(membership, Some(controller)));
                    hierarchies.separate.extend(own.map(|own| (options.clone(), place(root, mount, own))));
                }
                _ => {}
            }
        }
        hierarchies
    }

    fn separate(&self, controller: &str) -> Option<&Path> {
        let (_, place) = self
            .separate
            .iter()
            .find(|(controllers, _)| controllers.iter().any(|name| name == controller))?;
        Some(&place.own)
    }
}

fn place(root: &str, mount: &str, own: &str) -> Place {
    let mount = PathBuf::from(mount);
    // A mount may show only a part of the hierarchy, from `root` on.
    let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(own));
    let own = mount.join(below.strip_prefix("/").unwrap_or(below));
    Place { mount, own }
}

/// Returns the group that this process is in, from lines `number:controllers:path`.
fn own_group<'a>(membership: &'a str, controller: Option<&str>) -> Option<&'a str> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let matches = match controller {
            None => number == "0",
            Some(controller) => controllers.split(',').any(|name| name == controller),
        };
        matches.then_some(path)
    })
}

/// Returns the controllers that groups below this one have, after asking for those that limits need.
fn enable_controllers(parent: &Path) -> Vec<String> {
    // Refused where processes are in the group itself; then what is enabled already is all there is.
    for controller in ["+memory", "+pids"] {
        let _ = fs::write(parent.join("cgroup.subtree_control"), controller);
    }
    let enabled = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    enabled.split_whitespace().map(str::to_owned).collect()
}

fn make_folder(parent: &Path, tag: u64) -> io::Result<PathBuf> {
    let folder = parent.join(name(tag));
    match fs::create_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(folder),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("{} cannot be made: {error}", folder.display())))
        }
        Ok(()) => Ok(folder),
    }
}

fn name(tag: u64) -> String {
    format!("volery-{}", hex(tag))
}

fn counter(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Removes a group, waiting for those who are on their way out of it.
fn remove_folder(folder: &Path) -> io::Result<()> {
    let deadline = Instant::now() + REMOVAL;
    loop {
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            answer => return answer,
        }
    }
}

/// Returns the folders of this name below a mount, within bounds.
fn find(mount: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(mount.to_owned(), 0)];
    let mut looked = 0;
    while let Some((folder, depth)) = open.pop() {
        looked += 1;
        if looked > SEARCH_FOLDERS {
            break;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name() == name {
                found.push(entry.path());
            } else if depth < SEARCH_DEPTH {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    found
}
