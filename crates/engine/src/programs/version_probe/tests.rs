//! Probes of scripts that print a version, fail, flood or hang.

use super::*;

/// Probes the version of a script.
fn probe(script: &str) -> Result<String, String> {
    let temp_dir = tempfile::tempdir().unwrap();
    let program = temp_dir.path().join("codex");
    std::fs::write(&program, script).unwrap();
    // Read by a shell instead of executed, since another test may fork in this moment and hold it open for writing.
    let argv = vec!["/bin/sh".to_owned(), program.display().to_string()];
    let found = LocatedProgram { argv, version: None };
    probe_version(&found, &"/usr/bin:/bin".into(), temp_dir.path(), 1 << 61)
}

#[test]
fn a_version_probe_passes_nothing_of_the_user() {
    let version =
        probe("#!/bin/sh\n[ \"$*\" = --version ] && [ \"$HOME\" = \"$PWD\" ] && echo codex-cli 0.166.0\n");
    assert_eq!(version.as_deref(), Ok("0.166.0"));
    // Its input is empty.
    assert_eq!(probe("#!/bin/sh\ncat; echo 1.2.3\n").as_deref(), Ok("1.2.3"));
}

#[test]
fn a_failed_version_probe_is_reported_with_the_programs_own_words() {
    let probe_error = |script: &str| probe(script).unwrap_err();
    let broken = "#!/bin/sh\necho 1.2.3; printf 'no \\033[31mlibrary\\n\\n' >&2; exit 3\n";
    assert_eq!(probe_error(broken), "asked with --version, it exits with 3: no library");
    assert_eq!(probe_error("#!/bin/sh\nkill -9 $$\n"), "asked with --version, it is ended by signal 9");
    assert_eq!(probe_error("#!/bin/sh\necho hello\n"), "asked with --version, it says something else");
    let flood = "#!/bin/sh\nwhile :; do echo 1.2.3; done\n";
    assert_eq!(probe_error(flood), "asked with --version, it wrote more than 16384 bytes");
}

#[test]
fn a_program_that_does_not_answer_is_ended_with_all_that_it_started() {
    let temp_dir = tempfile::tempdir().unwrap();
    let pids = temp_dir.path().join("pids");
    let script = format!("#!/bin/sh\necho $$ > {0}\nsleep 600 &\necho $! >> {0}\nwait\n", pids.display());
    assert_eq!(probe(&script).unwrap_err(), "asked with --version, it took too long");
    for pid in std::fs::read_to_string(&pids).unwrap().lines() {
        let gone = || !Path::new("/proc").join(pid).join("exe").exists();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !gone() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(gone(), "{pid}");
    }
}

#[test]
fn a_version_is_found_in_any_surrounding_text() {
    let found = |text| version_in(text);
    assert_eq!(found("2.1.325 (Claude Code)\n").as_deref(), Some("2.1.325"));
    assert_eq!(found("GitHub Copilot CLI 1.0.102.\nRun 'copilot update' …").as_deref(), Some("1.0.102"));
    assert_eq!(found(" 1.34.0").as_deref(), Some("1.34.0"));
    assert_eq!(found("grok v1.0.41 (fake)").as_deref(), Some("1.0.41"));
    assert_eq!(found("2026.09.15-c2aa1b7").as_deref(), Some("2026.09.15-c2aa1b7"));
    assert_eq!(found("no version, e.g. 7 of them at http://x.y/1.2"), None);
    assert_eq!(found(&format!("1.{}", "2".repeat(100))), None);
}
