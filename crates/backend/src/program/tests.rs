//! Programs behind shims, and what is said of their versions.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const CODEX: Program = Program {
    names: &["codex"],
    natives: &["@openai/native/bin/codex"],
    variable: None,
    tried: Tried::Real("0.166.0", "0.166.0"),
};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn the_native_program_is_found_behind_a_shim_and_a_link() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let modules = root.join("lib/node_modules");
    write(&modules.join("@openai/codex/bin/codex.js"), "#!/usr/bin/env node\n");
    write(&modules.join("@openai/codex/package.json"), "{\"version\": \"0.166.0\"}");
    std::fs::create_dir(root.join("bin")).unwrap();
    symlink(modules.join("@openai/codex/bin/codex.js"), root.join("bin/codex")).unwrap();
    write(&root.join("bin/node"), "");
    let path = root.join("bin");
    let found = CODEX.find(path.as_os_str()).unwrap();
    let script = modules.join("@openai/codex/bin/codex.js");
    let node = root.join("bin/node");
    assert_eq!(found.argv, [node.display().to_string(), script.display().to_string()]);
    assert_eq!(found.version.as_deref(), Some("0.166.0"));
    write(&modules.join("@openai/native/bin/codex"), "\x7fELF");
    let native = modules.join("@openai/native/bin/codex").display().to_string();
    assert_eq!(CODEX.find(path.as_os_str()).unwrap().argv, std::slice::from_ref(&native));
    write(&modules.join("@openai/native/bin/codex"), "#!/usr/bin/env node\n");
    assert_eq!(CODEX.find(path.as_os_str()).unwrap().argv, [node.display().to_string(), native]);
    assert_eq!(CODEX.find(OsStr::new("/nowhere")), None);
}

#[test]
fn versions_are_compared_by_their_numbers() {
    assert!(is_before("2.1.97", "2.1.325"));
    assert!(!is_before("2.1.325", "2.1.325"));
    assert!(is_before("0.9.9", "0.10.0-alpha.1"));
    let told = CODEX.doubt(&own("0.170.0")).unwrap();
    assert_eq!(told, "codex 0.170.0 is newer than 0.166.0, the newest that volery was tried with");
    assert!(CODEX.doubt(&own("0.150.0")).unwrap().contains("is older than 0.166.0"));
    assert_eq!(CODEX.doubt(&own("0.166.0")), None);
    let told = CODEX.doubt(&Version::Untold("it hangs".to_owned())).unwrap();
    assert_eq!(told, "codex does not tell its version (it hangs); 0.166.0 is what volery fits");
}

fn own(version: &str) -> Version {
    Version::Own(version.to_owned())
}

#[test]
fn versions_that_were_never_tried_are_told_as_such() {
    let cursor = Program { tried: Tried::Never, ..CODEX };
    let told = cursor.doubt(&own("2026.09.15")).unwrap();
    assert_eq!(told, "codex 2026.09.15 was not tried with volery, which goes by its documentation");
    assert!(cursor.doubt(&Version::Untold(String::new())).unwrap().starts_with("codex was not tried"));
    let kiro = Program { tried: Tried::Documented("2.3", "3"), ..CODEX };
    assert_eq!([kiro.doubt(&own("2.3.0")), kiro.doubt(&own("3.9.1"))], [None, None]);
    let told = kiro.doubt(&own("4.0.0")).unwrap();
    assert_eq!(told, "codex 4.0.0 is newer than 3, the newest whose documentation volery goes by");
    assert!(kiro.doubt(&own("2.2.9")).unwrap().contains("is older than 2.3,"));
    // The package of goose counts in another way than the program.
    let tried = Tried::Packaged { package: ("0.20.1", "0.20.1"), own: ("1.34.0", "1.34.0") };
    let goose = Program { tried, ..CODEX };
    assert_eq!([goose.doubt(&own("1.34.0")), goose.doubt(&Version::Package("0.20.1".into()))], [None, None]);
    assert!(goose.doubt(&own("0.20.1")).unwrap().contains("older than 1.34.0"));
    assert!(goose.doubt(&Version::Package("1.34.0".into())).unwrap().contains("newer than 0.20.1"));
}

#[test]
fn the_native_program_is_found_where_a_global_installation_nests_it() {
    let place = tempfile::tempdir().unwrap();
    let modules = place.path().canonicalize().unwrap().join("lib/node_modules");
    let script = modules.join("@openai/codex/bin/codex.js");
    write(&script, "#!/usr/bin/env node\n");
    write(&modules.join("@openai/codex/package.json"), "{\"version\": \"0.166.0\"}");
    let native = modules.join("@openai/codex/node_modules/@openai/native/bin/codex");
    write(&native, "\x7fELF");
    let named = Launch { program: Some(script.display().to_string()), ..Launch::default() };
    let found = CODEX.find_as(&named, OsStr::new("")).unwrap();
    assert_eq!(found.argv, [native.display().to_string()]);
    assert_eq!(found.version.as_deref(), Some("0.166.0"));
}

#[test]
fn a_package_that_a_program_only_stands_beneath_is_not_its_own() {
    let place = tempfile::tempdir().unwrap();
    write(&place.path().join("package.json"), "{\"version\": \"7.0.0\"}");
    for folder in ["bin", "node_modules/.bin"] {
        write(&place.path().join(folder).join("codex"), "\x7fELF");
        let found = CODEX.find(place.path().join(folder).as_os_str()).unwrap();
        assert_eq!(found.version, None, "{folder}");
    }
}

#[test]
fn a_program_that_its_user_names_is_missing_where_it_is_not_there_whatever_the_path_has() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    write(&root.join("bin/codex"), "\x7fELF");
    write(&root.join("own/codex"), "\x7fELF");
    let program = Program { variable: Some("CODEX_BIN"), ..CODEX };
    let find = |named: Option<PathBuf>| {
        let value = |name: &str| named.clone().map(OsString::from).filter(|_| name == "CODEX_BIN");
        program.find_for(root.join("bin").as_os_str(), &value).map(|found| found.argv)
    };
    let at = |folder: &str| Some(vec![root.join(folder).join("codex").display().to_string()]);
    assert_eq!(find(None), at("bin"));
    assert_eq!(find(Some(root.join("own/codex"))), at("own"));
    assert_eq!(find(Some(root.join("nowhere/codex"))), None);
}

/// Asks a script for its version.
fn asked(script: &str) -> Result<String, String> {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("codex");
    write(&program, script);
    // Read by a shell instead of executed, since another test may fork in this moment and hold it open for writing.
    let argv = vec!["/bin/sh".to_owned(), program.display().to_string()];
    let found = Found { argv, version: None };
    ask_version(&found, &"/usr/bin:/bin".into(), place.path(), 1 << 61)
}

#[test]
fn a_program_is_asked_for_its_version_and_told_nothing_of_its_user() {
    let told =
        asked("#!/bin/sh\n[ \"$*\" = --version ] && [ \"$HOME\" = \"$PWD\" ] && echo codex-cli 0.166.0\n");
    assert_eq!(told.as_deref(), Ok("0.166.0"));
    // Its input is at its end.
    assert_eq!(asked("#!/bin/sh\ncat; echo 1.2.3\n").as_deref(), Ok("1.2.3"));
}

#[test]
fn a_program_that_does_not_tell_its_version_is_told_about_with_its_own_words() {
    let untold = |script: &str| asked(script).unwrap_err();
    let broken = "#!/bin/sh\necho 1.2.3; printf 'no \\033[31mlibrary\\n\\n' >&2; exit 3\n";
    assert_eq!(untold(broken), "asked with --version, it exits with 3: no library");
    assert_eq!(untold("#!/bin/sh\nkill -9 $$\n"), "asked with --version, it is ended by signal 9");
    assert_eq!(untold("#!/bin/sh\necho hello\n"), "asked with --version, it says something else");
    let flood = "#!/bin/sh\nwhile :; do echo 1.2.3; done\n";
    assert_eq!(untold(flood), "asked with --version, it wrote more than 16384 bytes");
}

#[test]
fn a_program_that_does_not_answer_is_ended_with_all_that_it_started() {
    let place = tempfile::tempdir().unwrap();
    let pids = place.path().join("pids");
    let script = format!("#!/bin/sh\necho $$ > {0}\nsleep 600 &\necho $! >> {0}\nwait\n", pids.display());
    assert_eq!(asked(&script).unwrap_err(), "asked with --version, it took too long");
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
fn a_version_is_found_in_whatever_a_program_says_around_it() {
    let found = |text| asked::version_in(text);
    assert_eq!(found("2.1.325 (Claude Code)\n").as_deref(), Some("2.1.325"));
    assert_eq!(found("GitHub Copilot CLI 1.0.102.\nRun 'copilot update' …").as_deref(), Some("1.0.102"));
    assert_eq!(found(" 1.34.0").as_deref(), Some("1.34.0"));
    assert_eq!(found("grok v1.0.41 (stand-in)").as_deref(), Some("1.0.41"));
    assert_eq!(found("2026.09.15-c2aa1b7").as_deref(), Some("2026.09.15-c2aa1b7"));
    assert_eq!(found("no version, e.g. 7 of them at http://x.y/1.2"), None);
    assert_eq!(found(&format!("1.{}", "2".repeat(100))), None);
}
