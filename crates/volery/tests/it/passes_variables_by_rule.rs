//! Rules about environment variables decide which of them reach an agent, whatever its backend is.

use crate::test_env::{TestEnv, command_output};

#[test]
fn a_rule_passes_a_variable_on_or_withholds_it() {
    let env = TestEnv::new();
    let head = "env: [GIVEN, WITHHELD]\npermission:\n  allow: [Env(PUBLIC_*)]\n  ask: [Env(PUBLIC_ASKED)]\n  \
                deny: [Env(WITHHELD), Env(LC_ALL)]";
    env.fake("teller", &["env"], head);
    let _trusted = env.volery(["trust", "--yes"]).ok();
    let mut command = env.command(["run", "teller", "tell"]);
    for name in ["GIVEN", "WITHHELD", "PUBLIC_URL", "PUBLIC_ASKED", "OTHER", "LC_ALL"] {
        command.env(name, format!("value-of-{name}"));
    }
    let output = command_output(command.output().unwrap()).ok().stdout;
    let given: Vec<&str> =
        output.lines().filter_map(|line| line.split_once("=value-of-")).map(|(name, _)| name).collect();
    assert_eq!(given, ["GIVEN", "PUBLIC_URL"], "{output}");
}
