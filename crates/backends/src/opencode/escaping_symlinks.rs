//! Symbolic links that lead out of the work tree. opencode only checks names and treats their targets as part of the work tree, so
//! edits through the names of the links are denied.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::json;
use system_files::regular_file;

use crate::permission_overrides::requires_enforcement;
use crate::user_environment;

/// Limits of the scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScanLimits {
    /// The most files and folders that are scanned. A million take about a second.
    pub(super) entries: usize,
    /// The most bytes of names. They are contained twice in a variable, and Linux limits a variable to 128 KiB.
    pub(super) bytes: usize,
}

pub(super) const SCAN_LIMITS: ScanLimits = ScanLimits { entries: 2_000_000, bytes: 56 << 10 };

/// The denied edits, and why some are missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeniedEdits {
    pub(super) patterns: Vec<String>,
    pub(super) gap: Option<String>,
}

/// Git's own folders are not scanned, because they are large: edits in them are denied as a whole.
const GIT_FOLDER: &str = ".git";
const ANNEX_FOLDER: &str = "annex";
const GIT_PATTERNS: [&str; 4] = [".git", "*/.git", ".git/*", "*/.git/*"];

/// Finds the edits to deny in the work tree of a run. If some are missing, a run whose permission must be enforced is refused.
pub(super) fn find_denied_edits(spec: &RunSpec, limits: ScanLimits) -> Result<DeniedEdits, String> {
    let denied = denied_edits(spec, limits);
    match &denied.gap {
        Some(gap) if requires_enforcement(spec) => Err(format!(
            "{gap}, so that edits cannot be kept within it; let the agent only read (permission: read-only), give each \
             run a work tree of its own, which has only what git tracks (isolation: worktree), or have it run all the \
             same (unenforceable: warn, in an agent's file of Volery's own format)"
        )),
        Some(_) | None => Ok(denied),
    }
}

fn denied_edits(spec: &RunSpec, limits: ScanLimits) -> DeniedEdits {
    let mut patterns = GIT_PATTERNS.map(ToOwned::to_owned).to_vec();
    let folders = user_environment::directories_up_to_root(&spec.directory, &spec.project);
    let Some(root) = folders.last().and_then(|root| root.canonicalize().ok()) else {
        return DeniedEdits { patterns, gap: None };
    };
    let EscapingLinks { escaping, is_complete } = find_links(&root, limits.entries);
    let (mut bytes, mut denied_links) = (0, 0);
    for link in &escaping {
        let link_patterns = link_names(&root, link);
        bytes += link_patterns.iter().map(|name| format!("{}:\"deny\",", json!(name)).len()).sum::<usize>();
        if bytes > limits.bytes {
            break;
        }
        patterns.extend(link_patterns);
        denied_links += 1;
    }
    let root_path = root.display();
    let gap = match (is_complete, escaping.len()) {
        (false, _) => Some(format!(
            "{root_path} has more than {} files and folders, too many to look for the symbolic links that lead out of it",
            limits.entries
        )),
        (true, all) if denied_links < all => Some(format!(
            "{all} symbolic links lead out of {root_path}, or nobody knows where to, and the settings of opencode have \
             room for {denied_links} of them"
        )),
        (true, _) => None,
    };
    DeniedEdits { patterns, gap }
}

struct EscapingLinks {
    /// Links that lead out of the folder or to an unknown target, and links inside through which such a link can be reached.
    escaping: Vec<PathBuf>,
    is_complete: bool,
}

fn find_links(root: &Path, entries_max: usize) -> EscapingLinks {
    let mut escaping = Vec::new();
    let mut internal = Vec::new();
    let mut folders = vec![root.to_owned()];
    let mut entries = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            entries += 1;
            if entries > entries_max {
                return EscapingLinks { escaping, is_complete: false };
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && entry.file_name() != GIT_FOLDER {
                folders.push(path);
            } else if kind.is_symlink() {
                match path.canonicalize() {
                    _ if regular_file::resolves_per_process(&path) => escaping.push(path),
                    Ok(target) if target.starts_with(root) && !is_git_internal(root, &target) => {
                        internal.push((path, target));
                    }
                    Ok(_) | Err(_) => escaping.push(path),
                }
            }
        }
    }
    let mut ancestors: HashSet<PathBuf> = HashSet::new();
    let mut processed = 0;
    while processed < escaping.len() {
        let new_ancestors = escaping[processed..].iter().flat_map(|link| link.ancestors());
        ancestors.extend(new_ancestors.map(Path::to_owned));
        processed = escaping.len();
        let leads_outside = |(_, target): &mut (PathBuf, PathBuf)| ancestors.contains(target);
        escaping.extend(internal.extract_if(.., leads_outside).map(|(link, _)| link));
    }
    escaping.sort();
    EscapingLinks { escaping, is_complete: true }
}

/// Returns whether a path is in a folder of git, which is not scanned and not edited. The files of git-annex in there are content
/// of the work tree, which has links to them.
fn is_git_internal(root: &Path, target: &Path) -> bool {
    let relative = target.strip_prefix(root).unwrap_or(target);
    let mut parts = relative.components().map(|part| part.as_os_str());
    parts.any(|part| part == GIT_FOLDER) && parts.next().is_none_or(|part| part != ANNEX_FOLDER)
}

/// Returns the patterns for a link. A name is relative to git's work tree, or to `/` if there is none.
fn link_names(root: &Path, link: &Path) -> Vec<String> {
    let names = [link.strip_prefix(root), link.strip_prefix("/")];
    let names = names.into_iter().filter_map(Result::ok).map(|name| name.to_string_lossy().into_owned());
    // An invalid character becomes a wildcard.
    let names = names.map(|name| name.replace(char::REPLACEMENT_CHARACTER, "?"));
    names.flat_map(|name| [format!("{name}/*"), name]).collect()
}
