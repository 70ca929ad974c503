//! Programs behind shims, and the warnings about their versions.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const CODEX: ProgramSpec = ProgramSpec {
    names: &["codex"],
    native_paths: &["@openai/native/bin/codex"],
    path_variable: None,
    install: "npm install -g @openai/codex",
    tested_versions: TestedVersions::Real("0.166.0", "0.166.0"),
};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn the_native_program_is_found_behind_a_shim_and_a_link() {
    let temp_dir = tempfile::tempdir().unwrap();
    let root = temp_dir.path().canonicalize().unwrap();
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
    let warning = CODEX.version_warning(&own("0.170.0")).unwrap();
    assert_eq!(warning, "codex 0.170.0 is newer than 0.166.0, the newest that volery was tried with");
    assert!(CODEX.version_warning(&own("0.150.0")).unwrap().contains("is older than 0.166.0"));
    assert_eq!(CODEX.version_warning(&own("0.166.0")), None);
    let warning = CODEX.version_warning(&ProgramVersion::Unknown("it hangs".to_owned())).unwrap();
    assert_eq!(warning, "codex does not tell its version (it hangs); 0.166.0 is what volery fits");
}

fn own(version: &str) -> ProgramVersion {
    ProgramVersion::SelfReported(version.to_owned())
}

#[test]
fn untested_versions_are_reported() {
    let cursor = ProgramSpec { tested_versions: TestedVersions::Never, ..CODEX };
    let warning = cursor.version_warning(&own("2026.09.15")).unwrap();
    assert_eq!(warning, "codex 2026.09.15 was not tried with volery, which goes by its documentation");
    assert!(
        cursor
            .version_warning(&ProgramVersion::Unknown(String::new()))
            .unwrap()
            .starts_with("codex was not tried")
    );
    let kiro = ProgramSpec { tested_versions: TestedVersions::Documented("2.3", "3"), ..CODEX };
    assert_eq!([kiro.version_warning(&own("2.3.0")), kiro.version_warning(&own("3.9.1"))], [None, None]);
    let warning = kiro.version_warning(&own("4.0.0")).unwrap();
    assert_eq!(warning, "codex 4.0.0 is newer than 3, the newest whose documentation volery goes by");
    assert!(kiro.version_warning(&own("2.2.9")).unwrap().contains("is older than 2.3,"));
    // The package of goose counts in another way than the program.
    let tried = TestedVersions::Packaged { package: ("0.20.1", "0.20.1"), own: ("1.34.0", "1.34.0") };
    let goose = ProgramSpec { tested_versions: tried, ..CODEX };
    assert_eq!(
        [
            goose.version_warning(&own("1.34.0")),
            goose.version_warning(&ProgramVersion::Package("0.20.1".into()))
        ],
        [None, None]
    );
    assert!(goose.version_warning(&own("0.20.1")).unwrap().contains("older than 1.34.0"));
    assert!(
        goose
            .version_warning(&ProgramVersion::Package("1.34.0".into()))
            .unwrap()
            .contains("newer than 0.20.1")
    );
}

#[test]
fn the_native_program_is_found_where_a_global_installation_nests_it() {
    let temp_dir = tempfile::tempdir().unwrap();
    let modules = temp_dir.path().canonicalize().unwrap().join("lib/node_modules");
    let script = modules.join("@openai/codex/bin/codex.js");
    write(&script, "#!/usr/bin/env node\n");
    write(&modules.join("@openai/codex/package.json"), "{\"version\": \"0.166.0\"}");
    let native = modules.join("@openai/codex/node_modules/@openai/native/bin/codex");
    write(&native, "\x7fELF");
    let named_program =
        LaunchOverrides { program: Some(script.display().to_string()), ..LaunchOverrides::default() };
    let found = CODEX.find_for_launch(&named_program, OsStr::new("")).unwrap();
    assert_eq!(found.argv, [native.display().to_string()]);
    assert_eq!(found.version.as_deref(), Some("0.166.0"));
}

#[test]
fn a_package_in_a_folder_above_a_program_is_not_its_own() {
    let temp_dir = tempfile::tempdir().unwrap();
    write(&temp_dir.path().join("package.json"), "{\"version\": \"7.0.0\"}");
    for folder in ["bin", "node_modules/.bin"] {
        write(&temp_dir.path().join(folder).join("codex"), "\x7fELF");
        let found = CODEX.find(temp_dir.path().join(folder).as_os_str()).unwrap();
        assert_eq!(found.version, None, "{folder}");
    }
}

#[test]
fn a_program_that_its_user_names_is_missing_where_it_is_not_there_whatever_the_path_has() {
    let temp_dir = tempfile::tempdir().unwrap();
    let root = temp_dir.path().canonicalize().unwrap();
    write(&root.join("bin/codex"), "\x7fELF");
    write(&root.join("own/codex"), "\x7fELF");
    let program = ProgramSpec { path_variable: Some("CODEX_BIN"), ..CODEX };
    let find = |named_program: Option<PathBuf>| {
        let value = |name: &str| named_program.clone().map(OsString::from).filter(|_| name == "CODEX_BIN");
        program.find_for_user(root.join("bin").as_os_str(), &value).map(|found| found.argv)
    };
    let at = |folder: &str| Some(vec![root.join(folder).join("codex").display().to_string()]);
    assert_eq!(find(None), at("bin"));
    assert_eq!(find(Some(root.join("own/codex"))), at("own"));
    assert_eq!(find(Some(root.join("nowhere/codex"))), None);
}
