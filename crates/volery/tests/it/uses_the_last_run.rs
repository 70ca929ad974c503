//! A command that names no run means the last one that its caller started in this project.

use crate::stage::{Stage, said};

#[test]
fn the_last_run_of_the_caller_in_this_project_is_meant() {
    let stage = Stage::new();
    stage.rehearsal("echo", "- say: \"{prompt}\"", "");
    let none = stage.volery(["show"]).exits(5).stderr;
    assert!(none.contains("you have not started a run in this project"), "{none}");
    stage.volery(["run", "echo", "first"]).ok();
    let second = stage.start("echo", "second");
    stage.ended(&second);
    // Neither a run of another project nor one of another caller is meant, though both are newer.
    let echo = ".volery/agents/echo.md";
    std::fs::create_dir_all(stage.path("other/.volery/agents")).unwrap();
    std::fs::copy(stage.project().join(echo), stage.path("other").join(echo)).unwrap();
    let mut elsewhere = stage.command(["run", "echo", "elsewhere"]);
    said(elsewhere.current_dir(stage.path("other")).output().unwrap()).ok();
    let mut client = stage.serve().initialize("another");
    client.call("run_agent", serde_json::json!({ "agent": "echo", "prompt": "of a client" }));
    // Nor one of a client that does not say its name.
    let mut nameless = stage.serve().initialize("");
    nameless.call("run_agent", serde_json::json!({ "agent": "echo", "prompt": "of somebody" }));

    assert_eq!(stage.json(["show"])["run_id"], second.as_str());
    let shown = stage.volery(["logs"]).ok();
    assert_eq!(shown.stdout, "second\n");
    assert!(shown.stderr.starts_with("the last run: ") && shown.stderr.contains("echo: second"), "{shown:?}");
    assert_eq!(stage.volery(["wait"]).ok().stdout.trim(), "second");
    let cancelled = stage.volery(["cancel"]).ok().stdout;
    assert!(cancelled.contains("has ended already"), "{cancelled}");
    let resumed = stage.volery(["resume"]);
    assert!(resumed.code != 0 && resumed.stderr.contains(&second[second.len() - 8..]), "{resumed:?}");
    assert!(resumed.stderr.contains("volery run echo --session "), "{resumed:?}");
}
