//! Failpoints: named points in the life of a run at which tests can hold a process, and kill it or others.
//!
//! In release builds a failpoint does nothing. In debug builds, if `$VOLERY_TEST_POINTS/<point>.hold` exists, the
//! process writes its pid to `<point>.reached` and waits until `<point>.hold` is gone.

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn reach(_point: &str) {}

/// Waits here while a test holds this point.
#[cfg(debug_assertions)]
pub fn reach(point: &str) {
    let Some(directory) = crate::env::get(crate::env::VOLERY_TEST_POINTS) else { return };
    let directory = std::path::PathBuf::from(directory);
    let hold = directory.join(format!("{point}.hold"));
    if !hold.exists() {
        return;
    }
    let reached = directory.join(format!("{point}.reached"));
    // If this file cannot be written, the test waits until its own deadline and reports which point was not reached.
    let _ = std::fs::write(&reached, std::process::id().to_string());
    for _ in 0..30_000 {
        if !hold.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
