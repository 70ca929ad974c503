//! Symbolic links that lead out of the work tree. opencode takes what stands behind them for a part of the tree, since
//! it looks at names only: so the names of the links are denied.

use std::path::{Path, PathBuf};

use domain::run::RunSpec;

use crate::loosened::is_demanded;
use crate::{plain_file, user};

/// How many files and folders are looked at.
const ENTRIES_MAX: usize = 200_000;
/// How many links are denied one by one; their names go by a variable.
const LINKS_MAX: usize = 200;

/// Returns the patterns of edits that are denied in the work tree of a run.
pub(super) fn denied(spec: &RunSpec) -> Result<Vec<String>, String> {
    let folders = user::upward(&spec.directory, &spec.project);
    let Some(root) = folders.last().and_then(|root| root.canonicalize().ok()) else { return Ok(Vec::new()) };
    match links(&root) {
        Some(links) => Ok(links.iter().flat_map(|link| patterns(&root, link)).collect()),
        None if !is_demanded(spec) => Ok(Vec::new()),
        None => Err(format!(
            "more than {LINKS_MAX} symbolic links lead out of {}, or it has more than {ENTRIES_MAX} files, so that edits \
             cannot be kept within it",
            root.display()
        )),
    }
}

/// Returns the links below a folder that lead out of it, or nobody knows where to, and those within through which one
/// gets to such a link; nothing if there are too many.
fn links(root: &Path) -> Option<Vec<PathBuf>> {
    let mut outward = Vec::new();
    let mut inward = Vec::new();
    let mut folders = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            seen += 1;
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                match path.canonicalize() {
                    _ if plain_file::differs_by_process(&path) => outward.push(path),
                    Ok(target) if target.starts_with(root) => inward.push((path, target)),
                    Ok(_) | Err(_) => outward.push(path),
                }
            }
            if seen > ENTRIES_MAX || outward.len() > LINKS_MAX {
                return None;
            }
        }
    }
    loop {
        let leads = |target: &Path| outward.iter().any(|link: &PathBuf| link.starts_with(target));
        let (through, rest): (Vec<_>, Vec<_>) =
            inward.into_iter().partition(|(_, target): &(PathBuf, PathBuf)| leads(target));
        if through.is_empty() {
            break;
        }
        outward.extend(through.into_iter().map(|(link, _)| link));
        inward = rest;
    }
    outward.sort();
    (outward.len() <= LINKS_MAX).then_some(outward)
}

/// A name counts from the work tree of git, or from `/` where there is none.
fn patterns(root: &Path, link: &Path) -> Vec<String> {
    let names = [link.strip_prefix(root), link.strip_prefix("/")];
    let names = names.into_iter().filter_map(Result::ok).map(|name| name.to_string_lossy().into_owned());
    // A letter that is not known stands for any.
    let names = names.map(|name| name.replace(char::REPLACEMENT_CHARACTER, "?"));
    names.flat_map(|name| [format!("{name}/*"), name]).collect()
}
