//! Caches definitions while the files that they came from are unchanged. Checking 300 files takes a fraction of a
//! millisecond, reading them takes many.

use std::sync::{Arc, Mutex, PoisonError};

use super::file_state::{FileState, are_unchanged, read_observed};
use crate::clock;

/// How many results are cached: a server rarely works for more projects.
const ENTRIES_MAX: usize = 8;

/// Results by key.
pub(super) struct FileCache<K, T>(Mutex<Vec<Arc<CachedRead<K, T>>>>);

struct CachedRead<K, T> {
    key: K,
    value: Arc<T>,
    observed: Vec<FileState>,
}

impl<K: PartialEq + Clone, T> FileCache<K, T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the cached value for this key, or reads it again if any file, folder or link that it depends on has
    /// changed.
    pub(super) fn get(&self, key: &K, read: impl FnOnce() -> T) -> Arc<T> {
        self.get_at(clock::now().as_millisecond(), key, read)
    }

    fn get_at(&self, now_ms: i64, key: &K, read: impl FnOnce() -> T) -> Arc<T> {
        let cached = self.lock().iter().find(|entry| entry.key == *key).cloned();
        if let Some(entry) = cached.filter(|entry| are_unchanged(&entry.observed)) {
            return Arc::clone(&entry.value);
        }
        let (value, mut observed) = read_observed(read);
        let value = Arc::new(value);
        let mut entries = self.lock();
        entries.retain(|entry| entry.key != *key);
        if observed.iter().all(|state| state.is_settled(now_ms)) {
            observed.sort();
            observed.dedup();
            if entries.len() >= ENTRIES_MAX {
                entries.remove(0);
            }
            entries.push(Arc::new(CachedRead { key: key.clone(), value: Arc::clone(&value), observed }));
        }
        value
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<CachedRead<K, T>>>> {
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
    struct CountedReads<'a> {
        folder: &'a Path,
        cache: FileCache<u8, Vec<String>>,
        reads: Cell<usize>,
    }

    impl<'a> CountedReads<'a> {
        fn new(folder: &'a Path) -> Self {
            Self { folder, cache: FileCache::new(), reads: Cell::new(0) }
        }

        fn get(&self, now_ms: i64) -> Vec<String> {
            self.cache.get_at(now_ms, &1, || self.read()).to_vec()
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
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a"), "one").unwrap();
        let texts = CountedReads::new(dir.path());
        for _ in 0..3 {
            assert_eq!(texts.get(LATE_MS), ["one"]);
        }
        assert_eq!(texts.reads.get(), 1);
        std::fs::write(at("a"), "three").unwrap();
        assert_eq!(texts.get(LATE_MS), ["three"], "a file that changed");
        // More files than are checked one by one.
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
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("one")).unwrap();
        std::fs::write(at("one/a"), "text").unwrap();
        std::os::unix::fs::symlink(at("one"), at("link")).unwrap();
        let link = at("link");
        let texts = CountedReads::new(&link);
        assert_eq!((texts.get(LATE_MS).len(), texts.get(LATE_MS).len(), texts.reads.get()), (1, 1, 1));
        std::fs::create_dir(at("elsewhere")).unwrap();
        std::fs::rename(at("one"), at("elsewhere/one")).unwrap();
        std::fs::remove_file(at("link")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere/one"), at("link")).unwrap();
        assert_eq!((texts.get(LATE_MS).len(), texts.reads.get()), (1, 2));
    }

    #[test]
    fn recently_changed_files_are_read_each_time() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "one").unwrap();
        let texts = CountedReads::new(dir.path());
        let now = clock::now().as_millisecond();
        assert_eq!((texts.get(now), texts.get(now)), (vec!["one".to_owned()], vec!["one".to_owned()]));
        assert_eq!(texts.reads.get(), 2, "a second change in the same moment would leave no trace");
    }

    #[test]
    fn only_a_few_results_are_held() {
        let cache: FileCache<usize, usize> = FileCache::new();
        for number in 0..3 * ENTRIES_MAX {
            assert_eq!(*cache.get(&number, || number), number);
        }
        assert_eq!(cache.lock().len(), ENTRIES_MAX);
        assert_eq!(*cache.get(&(3 * ENTRIES_MAX - 1), || 0), 3 * ENTRIES_MAX - 1, "the latest are");
    }
}
