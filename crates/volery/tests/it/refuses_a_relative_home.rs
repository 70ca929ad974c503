//! A relative state directory is refused, because it would depend on the working directory of each command.

use crate::test_env::{TestEnv, command_output};

#[test]
fn a_relative_home_is_refused_and_not_replaced_by_the_default() {
    let env = TestEnv::new();
    let output = command_output(env.command(["ps"]).env("VOLERY_HOME", "state").output().unwrap());
    assert_eq!(output.code, 2, "{output:?}");
    insta::assert_snapshot!(env.masked(&output.stderr), @"
    error: there is no place for the state: VOLERY_HOME, or HOME if that is not set, must be an absolute path
    hint: set VOLERY_HOME to a directory of yours on a local disk
    ");
    assert!(!env.path("home/.local").exists(), "nothing was made elsewhere");
}

#[test]
fn a_relative_place_for_the_configuration_is_refused_and_not_passed_over() {
    let env = TestEnv::new();
    let output = command_output(env.command(["ps"]).env("VOLERY_CONFIG_HOME", "config").output().unwrap());
    assert_eq!(output.code, 2, "{output:?}");
    insta::assert_snapshot!(env.masked(&output.stderr), @"
    error: VOLERY_CONFIG_HOME is a relative path, which means another place for every caller
    hint: set it to an absolute path, or not at all
    ");
}
