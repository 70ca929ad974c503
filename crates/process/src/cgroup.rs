//! Control groups: one group per run that holds its process tree, limits it, counts its usage, and can be killed as a
//! whole.
//!
//! Uses version 2 if it offers what is needed, otherwise version 1, hierarchy by hierarchy. A group is made only
//! below the group of this process, or below one that was delegated to it, so it escapes nobody's limits.

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

/// What a group is needed for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CgroupNeeds {
    pub(super) memory_bytes: Option<u64>,
    pub(super) processes: Option<u64>,
    /// To count the CPU time of the whole tree, including processes that have ended.
    pub(super) cpu: bool,
    /// To kill the whole tree at once.
    pub(super) kill: bool,
}

/// The groups of one run.
#[derive(Debug, Default)]
pub(super) struct Cgroup {
    unified: Option<PathBuf>,
    memory: Option<LimitedGroup>,
    processes: Option<LimitedGroup>,
    cpu: Option<PathBuf>,
    /// Every folder that was made, one per hierarchy.
    folders: Vec<PathBuf>,
}

/// The descriptors by which a process joins the groups of a run.
#[derive(Debug)]
pub(super) struct JoinFds {
    pub(super) unified: Option<UnifiedJoinFds>,
    /// The `tasks` files of all hierarchies of version 1.
    pub(super) tasks: Vec<OwnedFd>,
}

/// The group of version 2.
#[derive(Debug)]
pub(super) struct UnifiedJoinFds {
    /// To start a process in.
    pub(super) folder: OwnedFd,
    /// To move a process by, where the kernel cannot start one in a group.
    pub(super) procs: OwnedFd,
}

/// A group in which a limit is set.
#[derive(Debug)]
struct LimitedGroup {
    folder: PathBuf,
    version: CgroupVersion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// Makes the groups of a run. Returns those that could be made, and why the others could not.
pub(super) fn create(tag: u64, needs: CgroupNeeds) -> (Option<Cgroup>, Vec<String>) {
    if needs.memory_bytes.is_none() && needs.processes.is_none() && !needs.cpu && !needs.kill {
        return (None, Vec::new());
    }
    let mut group = Cgroup::default();
    let mut missing = Vec::new();
    let hierarchies = Hierarchies::read();
    if let Err(error) = group.make_unified(tag, &hierarchies, needs) {
        missing.push(format!("control group, version 2: {error}"));
    }
    if let Err(error) = group.make_separate(tag, &hierarchies, needs) {
        missing.push(format!("control group, version 1: {error}"));
    }
    // Report only what is really missing.
    let satisfied = (needs.memory_bytes.is_none() || group.memory.is_some())
        && (needs.processes.is_none() || group.processes.is_some())
        && (!needs.cpu || group.cpu.is_some())
        && (!needs.kill || group.unified.is_some());
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
    let name = group_name(tag);
    for root in hierarchies.unified.iter().chain(hierarchies.separate.iter().map(|(_, hierarchy)| hierarchy))
    {
        for folder in find_folders(&root.mount, &name) {
            // Only version 2 has the file; elsewhere the tags have found the processes.
            let _ = fs::write(folder.join("cgroup.kill"), "1");
            remove_folder(&folder)?;
        }
    }
    Ok(())
}

impl Cgroup {
    /// Returns the groups of a run that were made from this process's own group, as a keeper finds those of its
    /// worker. Costs a few small reads.
    pub(super) fn existing(tag: u64) -> Option<Self> {
        let hierarchies = Hierarchies::read();
        let at = |parent: &Path| Some(parent.join(group_name(tag))).filter(|folder| folder.exists());
        let unified = hierarchies.unified.and_then(|hierarchy| {
            at(&hierarchy.own).or_else(|| hierarchy.delegated().and_then(|parent| at(&parent)))
        });
        let separate = hierarchies.separate.iter().filter_map(|(_, hierarchy)| at(&hierarchy.own));
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

    /// Opens the descriptors by which a process joins the groups.
    pub(super) fn join_fds(&self) -> io::Result<JoinFds> {
        let write = |file: PathBuf| fs::OpenOptions::new().write(true).open(file).map(OwnedFd::from);
        let unified = self.unified.as_ref().map(|folder| {
            let procs = write(folder.join("cgroup.procs"))?;
            Ok::<_, io::Error>(UnifiedJoinFds { folder: fs::File::open(folder)?.into(), procs })
        });
        let separate = self.folders.iter().filter(|folder| Some(*folder) != self.unified.as_ref());
        // Moving a single thread, which is what the new process has, costs microseconds. Moving a process by
        // `cgroup.procs` waits until no process of the machine forks: 13 ms where it was measured.
        let tasks = separate.map(|folder| write(folder.join("tasks"))).collect::<io::Result<_>>()?;
        Ok(JoinFds { unified: unified.transpose()?, tasks })
    }

    /// Kills the whole tree at once, if the kernel supports it, and returns the number of processes.
    pub(super) fn kill_counted(&self) -> u32 {
        let Some(folder) = &self.unified else { return 0 };
        let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        match fs::write(folder.join("cgroup.kill"), "1") {
            Ok(()) => u32::try_from(members.lines().count()).unwrap_or(u32::MAX),
            // Kernels before 5.14 lack the file; the sweep by tags follows in any case.
            Err(_) => 0,
        }
    }

    /// Returns whether a process was killed because the tree had no memory left.
    pub(super) fn exceeded_memory(&self) -> bool {
        self.memory.as_ref().is_some_and(|limited| {
            let file = match limited.version {
                CgroupVersion::One => "memory.oom_control",
                CgroupVersion::Two => "memory.events",
            };
            counter(&limited.folder.join(file), "oom_kill").is_some_and(|count| count > 0)
        })
    }

    /// Returns whether a process could not be made because the tree had too many.
    pub(super) fn exceeded_processes(&self) -> bool {
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

    fn make_unified(&mut self, tag: u64, hierarchies: &Hierarchies, needs: CgroupNeeds) -> io::Result<()> {
        let Some(hierarchy) = &hierarchies.unified else { return Ok(()) };
        let parent = hierarchy.delegated().unwrap_or_else(|| hierarchy.own.clone());
        let limits = needs.memory_bytes.is_some() || needs.processes.is_some();
        let enabled = if limits { enable_controllers(&parent) } else { Vec::new() };
        let memory = needs.memory_bytes.filter(|_| enabled.iter().any(|name| name == "memory"));
        let processes = needs.processes.filter(|_| enabled.iter().any(|name| name == "pids"));
        if memory.is_none() && processes.is_none() && !needs.cpu && !needs.kill {
            return Ok(());
        }
        let folder = make_folder(&parent, tag)?;
        self.folders.push(folder.clone());
        if let Some(bytes) = memory {
            fs::write(folder.join("memory.max"), bytes.to_string())?;
            // Absent where there is no swap, or before 4.19.
            let _ = fs::write(folder.join("memory.swap.max"), "0");
            let _ = fs::write(folder.join("memory.oom.group"), "1");
            self.memory = Some(LimitedGroup { folder: folder.clone(), version: CgroupVersion::Two });
        }
        if let Some(count) = processes {
            fs::write(folder.join("pids.max"), count.to_string())?;
            self.processes = Some(LimitedGroup { folder: folder.clone(), version: CgroupVersion::Two });
        }
        if folder.join("cpu.stat").exists() {
            self.cpu = Some(folder.clone());
        }
        self.unified = Some(folder);
        Ok(())
    }

    fn make_separate(&mut self, tag: u64, hierarchies: &Hierarchies, needs: CgroupNeeds) -> io::Result<()> {
        if let Some(bytes) = needs.memory_bytes.filter(|_| self.memory.is_none())
            && let Some(parent) = hierarchies.separate("memory")
        {
            let folder = self.make_separate_folder(parent, tag)?;
            fs::write(folder.join("memory.limit_in_bytes"), bytes.to_string())?;
            // Memory and swap together; absent where swap is not counted.
            let _ = fs::write(folder.join("memory.memsw.limit_in_bytes"), bytes.to_string());
            self.memory = Some(LimitedGroup { folder, version: CgroupVersion::One });
        }
        if let Some(count) = needs.processes.filter(|_| self.processes.is_none())
            && let Some(parent) = hierarchies.separate("pids")
        {
            let folder = self.make_separate_folder(parent, tag)?;
            fs::write(folder.join("pids.max"), count.to_string())?;
            self.processes = Some(LimitedGroup { folder, version: CgroupVersion::One });
        }
        if needs.cpu
            && self.cpu.is_none()
            && let Some(parent) = hierarchies.separate("cpuacct")
        {
            self.cpu = Some(self.make_separate_folder(parent, tag)?);
        }
        Ok(())
    }

    /// Makes a folder unless a hierarchy with several controllers has it already.
    fn make_separate_folder(&mut self, parent: &Path, tag: u64) -> io::Result<PathBuf> {
        let folder = parent.join(group_name(tag));
        if !self.folders.contains(&folder) {
            self.folders.push(make_folder(parent, tag)?);
        }
        Ok(folder)
    }
}

/// A hierarchy: where it is mounted, and where this process is in it.
#[derive(Debug)]
struct Hierarchy {
    mount: PathBuf,
    own: PathBuf,
}

impl Hierarchy {
    /// Returns the nearest ancestor group that its owner has delegated for making groups in.
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
    unified: Option<Hierarchy>,
    /// Version 1: the controllers of each.
    separate: Vec<(Vec<String>, Hierarchy)>,
}

impl Hierarchies {
    /// Reads which hierarchies are mounted; none if the files do not exist.
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
                        .map(|own| hierarchy_at(root, mount, own))
                        .or(hierarchies.unified);
                }
                "cgroup" => {
                    let own = options.iter().find_map(|controller| own_group(membership, Some(controller)));
                    hierarchies
                        .separate
                        .extend(own.map(|own| (options.clone(), hierarchy_at(root, mount, own))));
                }
                _ => {}
            }
        }
        hierarchies
    }

    fn separate(&self, controller: &str) -> Option<&Path> {
        let (_, hierarchy) = self
            .separate
            .iter()
            .find(|(controllers, _)| controllers.iter().any(|name| name == controller))?;
        Some(&hierarchy.own)
    }
}

fn hierarchy_at(root: &str, mount: &str, own: &str) -> Hierarchy {
    let mount = PathBuf::from(mount);
    // A mount may show only a part of the hierarchy, from `root` on.
    let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(own));
    let own = mount.join(below.strip_prefix("/").unwrap_or(below));
    Hierarchy { mount, own }
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

/// Returns the controllers that groups below this one have, after enabling those that limits need.
fn enable_controllers(parent: &Path) -> Vec<String> {
    // Refused if the group itself has processes; the controllers that are enabled already are then all there is.
    for controller in ["+memory", "+pids"] {
        let _ = fs::write(parent.join("cgroup.subtree_control"), controller);
    }
    let enabled = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    enabled.split_whitespace().map(str::to_owned).collect()
}

fn make_folder(parent: &Path, tag: u64) -> io::Result<PathBuf> {
    let folder = parent.join(group_name(tag));
    match fs::create_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(folder),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("{} cannot be made: {error}", folder.display())))
        }
        Ok(()) => Ok(folder),
    }
}

fn group_name(tag: u64) -> String {
    format!("volery-{}", hex(tag))
}

fn counter(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Removes a group; waits for processes that are still leaving it.
fn remove_folder(folder: &Path) -> io::Result<()> {
    let deadline = Instant::now() + REMOVAL;
    loop {
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => return result,
        }
    }
}

/// Returns the folders of this name below a mount, within bounds.
fn find_folders(mount: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(mount.to_owned(), 0)];
    let mut searched = 0;
    while let Some((folder, depth)) = open.pop() {
        searched += 1;
        if searched > SEARCH_FOLDERS {
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
