//! Definitions that were read and are used again while the files they came from stay as they were. Looking at 300 files
//! takes a fraction of a millisecond, and reading them takes many.

use std::sync::{Arc, Mutex, PoisonError};

use super::file_state::{FileState, are_unchanged, read_observed};
use crate::clock;

/// How many results are held at once: a server rarely works for more projects.
const HELD_MAX: usize = 8;

/// Results by what was asked for.
pub(super) struct FileCache<K, T>(Mutex<Vec<Arc<Held<K, T>>>>);

struct Held<K, T> {
    key: K,
    value: Arc<T>,
    seen: Vec<FileState>,
}

impl<K: PartialEq + Clone, T> FileCache<K, T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns what was read for this key, or reads it if any file, folder or link that mattered has changed.
    pub(super) fn get(&self, key: &K, read: impl FnOnce() -> T) -> Arc<T> {
        self.get_at(clock::now().as_millisecond(), key, read)
    }

    fn get_at(&self, now_ms: i64, key: &K, read: impl FnOnce() -> T) -> Arc<T> {
        let known = self.lock().iter().find(|held| held.key == *key).cloned();
        if let Some(held) = known.filter(|held| are_unchanged(&held.seen)) {
            return Arc::clone(&held.value);
        }
        let (value, seen) = read_observed(read);
        let value = Arc::new(value);
        let mut all = self.lock();
        all.retain(|held| held.key != *key);
        if seen.iter().all(|seen| seen.is_settled(now_ms)) {
            if all.len() >= HELD_MAX {
                all.remove(0);
            }
            all.push(Arc::new(Held { key: key.clone(), value: Arc::clone(&value), seen }));
        }
        value
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Held<K, T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use crate::registry::file_state::{observe, observe_link_target};

    /// So late that every file has settled.
    const LATE_MS: i64 = i64::MAX / 4;

    /// A folder of texts, and how often they were read.
    struct Texts<'a> {
        folder: &'a Path,
        shelf: FileCache<u8, Vec<String>>,
        reads: Cell<usize>,
    }

    impl<'a> Texts<'a> {
        fn new(folder: &'a Path) -> Self {
            Self { folder, shelf: FileCache::new(), reads: Cell::new(0) }
        }

        fn get(&self, now_ms: i64) -> Vec<String> {
            self.shelf.get_at(now_ms, &1, || self.read()).to_vec()
        }

        fn read(&self) -> Vec<String> {
            self.reads.set(self.reads.get() + 1);
            observe_link_target(self.folder);
            observe(self.folder);
            let mut paths: Vec<_> =
                std::fs::read_dir(self.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            paths.iter().for_each(|path| observe(path));
            paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
        }
    }

    #[test]
    fn files_are_read_again_only_after_a_change() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("a"), "one").unwrap();
        let texts = Texts::new(place.path());
        for _ in 0..3 {
            assert_eq!(texts.get(LATE_MS), ["one"]);
        }
        assert_eq!(texts.reads.get(), 1);
        std::fs::write(at("a"), "three").unwrap();
        assert_eq!(texts.get(LATE_MS), ["three"], "a file that changed");
        // More files than are looked at one by one.
        for number in 0..20 {
            std::fs::write(at(&format!("many-{number}")), "many").unwrap();
        }
        assert_eq!((texts.get(LATE_MS).len(), texts.get(LATE_MS).len(), texts.reads.get()), (21, 21, 3));
        std::fs::write(at("many-7"), "others").unwrap();
        assert!(texts.get(LATE_MS).contains(&"others".to_owned()), "one of many files that changed");
        for number in 0..20 {
            std::fs::remove_file(at(&format!("many-{number}"))).unwrap();
        }
        std::fs::write(at("b"), "new").unwrap();
        assert_eq!(texts.get(LATE_MS), ["three", "new"], "a file that came");
        std::fs::write(at("c"), "eerht").unwrap();
        std::fs::rename(at("c"), at("a")).unwrap();
        assert_eq!(texts.get(LATE_MS), ["eerht", "new"], "a file that took the place of another of its size");
        std::fs::remove_file(at("b")).unwrap();
        assert_eq!(texts.get(LATE_MS), ["eerht"], "a file that went");
        assert_eq!(texts.reads.get(), 7);
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_a_change() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("one")).unwrap();
        std::fs::write(at("one/a"), "text").unwrap();
        std::os::unix::fs::symlink(at("one"), at("link")).unwrap();
        let link = at("link");
        let texts = Texts::new(&link);
        assert_eq!((texts.get(LATE_MS).len(), texts.get(LATE_MS).len(), texts.reads.get()), (1, 1, 1));
        std::fs::create_dir(at("elsewhere")).unwrap();
        std::fs::rename(at("one"), at("elsewhere/one")).unwrap();
        std::fs::remove_file(at("link")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere/one"), at("link")).unwrap();
        assert_eq!((texts.get(LATE_MS).len(), texts.reads.get()), (1, 2));
    }

    #[test]
    fn what_changed_a_moment_ago_is_read_each_time() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a"), "one").unwrap();
        let texts = Texts::new(place.path());
        let now = clock::now().as_millisecond();
        assert_eq!((texts.get(now), texts.get(now)), (vec!["one".to_owned()], vec!["one".to_owned()]));
        assert_eq!(texts.reads.get(), 2, "a second change in the same moment would leave no trace");
    }

    #[test]
    fn only_a_few_results_are_held() {
        let shelf: FileCache<usize, usize> = FileCache::new();
        for number in 0..3 * HELD_MAX {
            assert_eq!(*shelf.get(&number, || number), number);
        }
        assert_eq!(shelf.lock().len(), HELD_MAX);
        assert_eq!(*shelf.get(&(3 * HELD_MAX - 1), || 0), 3 * HELD_MAX - 1, "the latest are");
    }
}
