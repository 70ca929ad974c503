//! A state directory that depends on who asks is no state directory.

use crate::stage::{Stage, said};

#[test]
fn a_relative_home_is_refused_and_not_replaced_by_the_default() {
    let stage = Stage::new();
    let said = said(stage.command(["ps"]).env("VOLERY_HOME", "state").output().unwrap());
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("VOLERY_HOME"), "{said:?}");
    assert!(!stage.path("home/.local").exists(), "nothing was made elsewhere");
}

#[test]
fn a_relative_place_for_the_configuration_is_refused_and_not_passed_over() {
    let stage = Stage::new();
    let said = said(stage.command(["ps"]).env("VOLERY_CONFIG_HOME", "config").output().unwrap());
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("VOLERY_CONFIG_HOME is a relative path"), "{said:?}");
}
