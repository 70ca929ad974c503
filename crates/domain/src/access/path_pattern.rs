//! The path of a rule, compiled. It compares text only: the caller resolves links before.
//!
//! Paths are compared name by name. A glob never sees a `/`, because the classes of globset (`[!a]`) match one.

use globset::{GlobBuilder, GlobMatcher};

use crate::policy::Directory;

/// A compiled glob costs time and memory, and its text comes from a file.
const LENGTH_MAX: usize = 1024;
const SEGMENTS_MAX: usize = 64;

/// Why a pattern is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LENGTH_MAX} bytes or {SEGMENTS_MAX} names")]
    TooLong,
    #[error("it contains '..'")]
    ParentDirectory,
    #[error("it begins with '~'; write the path of the directory")]
    HomeDirectory,
    #[error("{0}; braces and brackets cannot contain a '/'")]
    Glob(String),
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    /// It is compared with paths from the root, else with paths from the run's directory.
    is_absolute: bool,
    segments: Vec<Segment>,
}

/// What a part of a pattern between two slashes matches.
#[derive(Debug, Clone)]
enum Segment {
    /// `**`: any number of names.
    AnyNames,
    /// `*`: one name.
    AnyName,
    Name(String),
    Glob {
        matcher: Box<GlobMatcher>,
        /// It has `?` or a class. In globset these match a byte instead of a character.
        counts_bytes: bool,
    },
}

/// Whether a pattern matches a path of which it is uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InDoubt {
    Matches,
    DoesNotMatch,
}

impl PathPattern {
    /// Compiles a pattern for runs in a directory.
    pub(super) fn new(pattern: &str, directory: &Directory) -> Result<Self, PathPatternError> {
        if pattern.is_empty() || pattern.contains('\0') {
            return Err(PathPatternError::Empty);
        }
        if pattern == "~" || pattern.starts_with("~/") {
            return Err(PathPatternError::HomeDirectory);
        }
        let (is_absolute, local) = from_directory(pattern, directory);
        let mut names: Vec<&str> = local.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if names.contains(&"..") {
            return Err(PathPatternError::ParentDirectory);
        }
        if pattern.len() > LENGTH_MAX || names.len() > SEGMENTS_MAX {
            return Err(PathPatternError::TooLong);
        }
        // A slash at the end stands for everything in the directory.
        if pattern.ends_with('/') {
            names.push("**");
        }
        let mut segments = names.iter().map(|name| Segment::new(name)).collect::<Result<Vec<_>, _>>()?;
        segments.dedup_by(|next, one| matches!(next, Segment::AnyNames) && matches!(one, Segment::AnyNames));
        // `src/**` matches everything in `src`, and not a file with this name.
        if matches!(segments.last(), Some(Segment::AnyNames)) {
            segments.push(Segment::AnyName);
        }
        Ok(Self { is_absolute, segments })
    }

    /// Returns whether the pattern matches an absolute path.
    pub(super) fn matches(&self, path: &str, directory: &str, doubt: InDoubt) -> bool {
        let end = self.segments.len();
        self.follow(path, directory, doubt).is_some_and(|active| active[end])
    }

    /// Returns whether the pattern could match a file below an absolute path.
    pub(super) fn could_match_below(&self, path: &str, directory: &str) -> bool {
        let end = self.segments.len();
        self.follow(path, directory, InDoubt::DoesNotMatch)
            .is_some_and(|active| active[..end].contains(&true))
    }

    /// Returns whether the pattern, in doubt, matches everything below an absolute path.
    pub(super) fn covers_below(&self, path: &str, directory: &str) -> bool {
        let Some((rest, [Segment::AnyNames, Segment::AnyName])) = self.segments.split_last_chunk() else {
            return false;
        };
        self.follow(path, directory, InDoubt::Matches).is_some_and(|active| active[rest.len()])
    }

    /// Returns whether the pattern matches everything that its rule can be about.
    pub(super) fn covers_everything(&self) -> bool {
        matches!(self.segments[..], [Segment::AnyNames, Segment::AnyName])
    }

    /// Returns the positions in the pattern that the names of a path lead to; `None` if the path is outside.
    fn follow(&self, path: &str, directory: &str, doubt: InDoubt) -> Option<Vec<bool>> {
        let local = match self.is_absolute {
            true => path.strip_prefix('/')?,
            false => below(path, directory)?,
        };
        let mut active = vec![false; self.segments.len() + 1];
        self.enter(0, &mut active);
        for name in local.split('/').filter(|name| !name.is_empty()) {
            let mut next = vec![false; active.len()];
            // Who restricts a directory by its name means everything in it.
            let end = self.segments.len();
            let ends_in_name = matches!(self.segments.last(), Some(Segment::Name(_)));
            next[end] = active[end] && ends_in_name && doubt == InDoubt::Matches;
            for (at, segment) in self.segments.iter().enumerate().filter(|(at, _)| active[*at]) {
                if matches!(segment, Segment::AnyNames) {
                    self.enter(at, &mut next);
                } else if segment.matches(name, doubt) {
                    self.enter(at + 1, &mut next);
                }
            }
            active = next;
        }
        Some(active)
    }

    /// Activates a position, and the one after it if it needs no name.
    fn enter(&self, at: usize, active: &mut [bool]) {
        active[at] = true;
        if matches!(self.segments.get(at), Some(Segment::AnyNames)) {
            active[at + 1] = true;
        }
    }
}

impl Segment {
    fn new(name: &str) -> Result<Self, PathPatternError> {
        match name {
            "**" => Ok(Self::AnyNames),
            "*" => Ok(Self::AnyName),
            name if !name.contains(['*', '?', '[', ']', '{', '}', '\\']) => Ok(Self::Name(name.to_owned())),
            name => {
                let glob = GlobBuilder::new(name)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build()
                    .map_err(|error| PathPatternError::Glob(error.kind().to_string()))?;
                Ok(Self::Glob {
                    matcher: Box::new(glob.compile_matcher()),
                    counts_bytes: name.contains(['?', '[']),
                })
            }
        }
    }

    fn matches(&self, name: &str, doubt: InDoubt) -> bool {
        match self {
            Self::AnyNames | Self::AnyName => true,
            Self::Name(expected) => expected == name,
            Self::Glob { counts_bytes: true, .. } if !name.is_ascii() => doubt == InDoubt::Matches,
            Self::Glob { matcher, .. } => matcher.is_match(name),
        }
    }
}

/// Returns an absolute path relative to a directory; for the directory itself, an empty text.
pub(super) fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    match path.strip_prefix(directory.trim_end_matches('/'))? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// Returns whether a pattern is absolute, and its text from the root or from the run's directory.
fn from_directory<'a>(pattern: &'a str, directory: &Directory) -> (bool, &'a str) {
    let is_absolute = pattern.starts_with('/');
    let inside = [&directory.target, &directory.name]
        .into_iter()
        .filter(|directory| is_absolute && !directory.trim_end_matches('/').is_empty())
        .find_map(|directory| below(pattern, directory));
    match inside {
        Some(inside) => (false, inside),
        None => (is_absolute, pattern),
    }
}
