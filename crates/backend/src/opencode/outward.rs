//! Symbolic links that lead out of the work tree. opencode takes what stands behind them for a part of the tree, since
//! it looks at names only: so the names of the links are denied.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use domain::run::RunSpec;
use serde_json::json;

use crate::loosened::is_demanded;
use crate::{plain_file, user};

/// How far a look goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How many files and folders are looked at. A million take about a second.
    pub(super) entries: usize,
    /// How much room the names have. They stand twice in a variable, and Linux takes none above 128 KiB.
    pub(super) bytes: usize,
}

pub(super) const BOUNDS: Bounds = Bounds { entries: 2_000_000, bytes: 56 << 10 };

/// What edits are denied, and why that is not all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) patterns: Vec<String>,
    pub(super) gap: Option<String>,
}

/// What git keeps for itself is not looked through: it is large and nobody's to edit, and so denied as a whole.
const OF_GIT: &str = ".git";
const OF_ANNEX: &str = "annex";
const OF_GIT_PATTERNS: [&str; 4] = [".git", "*/.git", ".git/*", "*/.git/*"];

/// Looks for what is denied in the work tree of a run. A run that shall be held to its permission and cannot be is
/// refused.
pub(super) fn look(spec: &RunSpec, bounds: Bounds) -> Result<Denied, String> {
    let denied = denied(spec, bounds);
    match &denied.gap {
        Some(gap) if is_demanded(spec) => Err(format!(
            "{gap}, so that edits cannot be kept within it; let the agent only read (permission: read-only), give each \
             run a work tree of its own, which has only what git tracks (isolation: worktree), or have it run all the \
             same (unenforceable: warn, in an agent's file of Volery's own format)"
        )),
        Some(_) | None => Ok(denied),
    }
}

fn denied(spec: &RunSpec, bounds: Bounds) -> Denied {
    let mut patterns = OF_GIT_PATTERNS.map(ToOwned::to_owned).to_vec();
    let folders = user::upward(&spec.directory, &spec.project);
    let Some(root) = folders.last().and_then(|root| root.canonicalize().ok()) else {
        return Denied { patterns, gap: None };
    };
    let Links { outward, is_all } = links(&root, bounds.entries);
    let (mut bytes, mut said) = (0, 0);
    for link in &outward {
        let of_link = names(&root, link);
        bytes += of_link.iter().map(|name| format!("{}:\"deny\",", json!(name)).len()).sum::<usize>();
        if bytes > bounds.bytes {
            break;
        }
        patterns.extend(of_link);
        said += 1;
    }
    let shown = root.display();
    let gap = match (is_all, outward.len()) {
        (false, _) => Some(format!(
            "{shown} has more than {} files and folders, too many to look for the symbolic links that lead out of it",
            bounds.entries
        )),
        (true, all) if said < all => Some(format!(
            "{all} symbolic links lead out of {shown}, or nobody knows where to, and the settings of opencode have \
             room for {said} of them"
        )),
        (true, _) => None,
    };
    Denied { patterns, gap }
}

struct Links {
    /// Those that lead out of a folder, or nobody knows where to, and those within through which one gets to such a link.
    outward: Vec<PathBuf>,
    is_all: bool,
}

fn links(root: &Path, entries_max: usize) -> Links {
    let mut outward = Vec::new();
    let mut inward = Vec::new();
    let mut folders = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            seen += 1;
            if seen > entries_max {
                return Links { outward, is_all: false };
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && entry.file_name() != OF_GIT {
                folders.push(path);
            } else if kind.is_symlink() {
                match path.canonicalize() {
                    _ if plain_file::differs_by_process(&path) => outward.push(path),
                    Ok(target) if target.starts_with(root) && !is_unseen(root, &target) => {
                        inward.push((path, target));
                    }
                    Ok(_) | Err(_) => outward.push(path),
                }
            }
        }
    }
    let mut on_the_way: HashSet<PathBuf> = HashSet::new();
    let mut told = 0;
    while told < outward.len() {
        let new = outward[told..].iter().flat_map(|link| link.ancestors());
        on_the_way.extend(new.map(Path::to_owned));
        told = outward.len();
        let leads = |(_, target): &mut (PathBuf, PathBuf)| on_the_way.contains(target);
        outward.extend(inward.extract_if(.., leads).map(|(link, _)| link));
    }
    outward.sort();
    Links { outward, is_all: true }
}

/// Tells whether something is git's own, which was not looked through and is not edited. What git-annex keeps there is
/// content of the work tree, of which each file is a link.
fn is_unseen(root: &Path, target: &Path) -> bool {
    let below = target.strip_prefix(root).unwrap_or(target);
    let mut parts = below.components().map(|part| part.as_os_str());
    parts.any(|part| part == OF_GIT) && parts.next().is_none_or(|part| part != OF_ANNEX)
}

/// A name counts from the work tree of git, or from `/` where there is none.
fn names(root: &Path, link: &Path) -> Vec<String> {
    let names = [link.strip_prefix(root), link.strip_prefix("/")];
    let names = names.into_iter().filter_map(Result::ok).map(|name| name.to_string_lossy().into_owned());
    // A letter that is not known stands for any.
    let names = names.map(|name| name.replace(char::REPLACEMENT_CHARACTER, "?"));
    names.flat_map(|name| [format!("{name}/*"), name]).collect()
}
