//! However much an agent writes, memory and disk stay bounded, what was left out is marked, and the rest is read in
//! pages.

use std::path::Path;

use serde_json::json;

use crate::test_env::{PATIENCE, TestEnv, peak_memory, tagged, wait_for};

const SPOOL_MAX: u64 = 64 << 20;
/// The debug build has larger frames and unoptimised buffers.
const WORKER_MAX: u64 = if cfg!(debug_assertions) { 40 << 20 } else { 24 << 20 };

fn size_of(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    entries.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}

#[test]
fn a_flood_on_both_streams() {
    let env = TestEnv::new();
    let gate = env.path("gate");
    let wait = format!("wait-file:{}", gate.display());
    env.fake("flood", &[&wait, "err:first", "flood:104857600:both", "say:the end", "err:the end"], "");
    let id = env.start("flood", "go");
    let worker = env.wait_for_event(&id, "agent_started");
    assert!(worker["containment"]["subreaper"].as_bool().unwrap());
    let worker = env.events(&id)[0]["worker_pid"].as_u64().unwrap();
    std::fs::write(gate, "").unwrap();
    let dir = env.run_dir(&id);
    let mut peak = 0;
    wait_for(PATIENCE, "the end of the flood", || {
        peak = peak_memory(u32::try_from(worker).unwrap()).unwrap_or(0).max(peak);
        dir.join("outcome.json").exists().then_some(())
    });
    assert!(peak > 1 << 20 && peak <= WORKER_MAX, "the worker took {} KiB", peak >> 10);
    // Two spools, and the result that is put together from one of them.
    assert!(size_of(&dir) <= 3 * SPOOL_MAX, "{} bytes on disk", size_of(&dir));
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());

    let truncated: Vec<_> =
        env.events(&id).into_iter().filter(|event| event["type"] == "output_truncated").collect();
    assert_eq!(truncated.len(), 2, "{truncated:?}");
    let logs = env.volery(["logs", &id, "--stderr"]).ok().stdout;
    assert!(logs.starts_with("first\n") && logs.ends_with("\nthe end\n"));
    assert!(logs.len() as u64 <= SPOOL_MAX + 4096 && logs.contains(" bytes omitted]\n"), "{}", logs.len());
    let result = env.volery(["wait", &id]).ok().stdout;
    assert!(result.ends_with("\nthe end\n") && result.contains("\n[volery: "));
}

#[test]
fn a_line_of_ten_megabytes_without_an_end_comes_back_in_pages() {
    const LENGTH: usize = 10_000_000;
    let env = TestEnv::new();
    env.fake("long", &[&format!("part:{}", "é".repeat(50)), &format!("long-line:{LENGTH}")], "");
    let id = env.start("long", "go");
    let shown = env.wait_for_end(&id);
    assert_eq!((&shown["status"], &shown["result_bytes"]), (&json!("succeeded"), &json!(LENGTH + 101)));
    assert!(shown["result_next_offset"].is_u64());

    let mut client = env.serve().initialize("it");
    let mut whole = String::new();
    let mut offset = json!(0);
    while offset.is_u64() {
        let page =
            client.call("get_run", json!({"run_id": id, "result_offset": offset, "result_max": 99_999}));
        let text = page["result"].as_str().unwrap();
        assert!(text.len() <= 99_999 && !text.is_empty());
        whole.push_str(text);
        offset = page["result_next_offset"].clone();
    }
    assert!(whole == format!("{}{}\n", "é".repeat(50), "x".repeat(LENGTH)), "{} bytes", whole.len());
    assert!(env.volery(["logs", &id, "--raw"]).ok().stdout == whole);
}

#[test]
fn a_small_bound_keeps_head_and_tail() {
    let env = TestEnv::new();
    env.fake(
        "chatty",
        &["say:the beginning", "flood:320000:stdout", "say:the end"],
        "limits: {output: 64KiB}",
    );
    let run = env.volery(["run", "chatty", "go"]).ok().stdout;
    assert!(run.starts_with("the beginning\n") && run.ends_with("\nthe end\n"), "{} bytes", run.len());
    assert!(run.len() < (64 << 10) + 200 && run.contains(" bytes omitted]\n"), "{} bytes", run.len());
}
