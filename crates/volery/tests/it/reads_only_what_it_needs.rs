//! A call looks at the settings of no vendor but its own, reads no definition again that has not changed, even beside one
//! that has just changed, and does not read the log of a run whose worker reported the end. The kernel reports each file
//! that is opened.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify;
use serde_json::json;

use crate::test_env::{Client, PATIENCE, TestEnv, wait_for};

/// The files of some folders that were opened.
struct FileOpenWatcher(OwnedFd);

impl FileOpenWatcher {
    fn watch(folders: &[&Path]) -> Self {
        let fd = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        for folder in folders {
            inotify::add_watch(&fd, *folder, inotify::WatchFlags::OPEN).unwrap();
        }
        Self(fd)
    }

    /// Returns the names of the files that were opened since the last question.
    fn names(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut names = Vec::new();
        // No more events is an error of a descriptor that does not block.
        while let Ok(event) = reader.next() {
            names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        names
    }
}

fn run(env: &TestEnv, client: &mut Client) {
    let ask = json!({"agent": "nothing", "prompt": "go", "directory": env.project()});
    assert_eq!(client.call("run_agent", ask)["status"], json!("succeeded"));
}

#[test]
fn a_custom_command_needs_no_settings_of_vendors() {
    let env = TestEnv::new();
    env.fake("nothing", &["read-stdin"], "");
    let folders =
        [".claude", ".gemini", ".cursor", ".opencode", ".qwen"].map(|name| env.project().join(name));
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("settings.json"), r#"{"hooks": {}}"#).unwrap();
    }
    let mut client = env.serve().initialize("it");
    let opened = FileOpenWatcher::watch(&folders.each_ref().map(std::path::PathBuf::as_path));
    run(&env, &mut client);
    assert_eq!(opened.names(), Vec::<String>::new());
    client.call("list_agents", json!({"directory": env.project()}));
    assert!(opened.names().contains(&"settings.json".to_owned()), "a list says what cannot be read");
}

#[test]
fn a_custom_command_needs_no_search_for_a_work_tree() {
    let env = TestEnv::new();
    env.fake("nothing", &["read-stdin"], "");
    // Above the project, and no whole repository, so that every search opens this file and continues.
    let git = env.path(".git");
    std::fs::create_dir(&git).unwrap();
    std::fs::write(git.join("HEAD"), "").unwrap();
    let mut server = env.command(["serve"]);
    // Without git nobody looks for files that the run changes.
    server.env("PATH", "/nowhere");
    let mut client = Client::start(server).initialize("it");
    let opened = FileOpenWatcher::watch(&[&git]);
    run(&env, &mut client);
    assert_eq!(opened.names(), Vec::<String>::new());
    client.call("list_agents", json!({"directory": env.project()}));
    assert!(opened.names().contains(&"HEAD".to_owned()), "a list names what vendors' programs would execute");
}

/// What was opened in the directory of a run between the end of its agent and the answer of its server.
fn opened_at_the_end(env: &TestEnv, client: &mut Client, number: usize) -> Vec<String> {
    let gate = env.path(&format!("gate-{number}"));
    env.fake(&format!("held-{number}"), &[&format!("wait-file:{}", gate.display())], "");
    let ask = json!({"agent": format!("held-{number}"), "prompt": "go", "directory": env.project()});
    let call = client.send("tools/call", json!({"name": "run_agent", "arguments": ask}));
    let id = env.wait_for_run_count(number + 1);
    env.wait_for_event(&id, "agent_started");
    let opened = FileOpenWatcher::watch(&[&env.run_dir(&id)]);
    std::fs::write(gate, "").unwrap();
    let answer = client.answer(call, PATIENCE);
    let names = opened.names();
    assert_eq!(answer["result"]["structuredContent"]["status"], json!("succeeded"), "{answer}");
    names
}

#[test]
fn a_reply_does_not_read_the_log_again() {
    let env = TestEnv::new();
    let mut client = env.serve().initialize("it");
    let mut number = 0;
    // A server that received nothing for half a second looks at the record, which may fall into the same moment.
    wait_for(PATIENCE, "an end without a second look", || {
        let names = opened_at_the_end(&env, &mut client, number);
        number += 1;
        let count = |file_name: &str| names.iter().filter(|name| *name == file_name).count();
        let counts = (count("spec.json"), count("outcome.json"), count("events.jsonl"));
        // The keeper makes sure that its worker has written the end.
        (counts.0 == 0 && counts.1 <= 1 && counts.2 == 0).then_some(())
    });
}

#[test]
fn the_reply_of_a_run_equals_its_record() {
    let env = TestEnv::new();
    let long = format!("say:{}", "heron ".repeat(20_000));
    let agents: [(&str, &[&str], &str, &str); 6] = [
        ("speaks", &["say:hello"], "", "succeeded"),
        ("says-nothing", &["read-stdin"], "", "succeeded"),
        ("fails", &["err:no birds here", "exit:7"], "", "failed"),
        ("takes-too-long", &["say:so far", "hang"], "timeout: 2s\ngrace: 100ms", "partial"),
        ("says-much", &[&long], "", "succeeded"),
        ("changes-files", &["write-file:new.txt:bird", "say:done"], "", "succeeded"),
    ];
    crate::test_env::git(&env.project(), &["init", "-q"]);
    for (name, steps, frontmatter, status) in agents {
        env.fake(name, steps, frontmatter);
        let reply = env.json(["run", name, "go"]);
        assert_eq!(reply["status"], json!(status), "{reply}");
        let record = env.json(["show", reply["run_id"].as_str().unwrap()]);
        assert_eq!(reply, record);
    }
}

#[test]
fn a_definition_is_read_again_only_when_it_has_changed() {
    let env = TestEnv::new();
    env.fake("nothing", &["read-stdin"], "");
    let agents = env.project().join(".volery/agents");
    for number in 0..20 {
        env.agent(&format!("other-{number}"), "backend: nothing");
    }
    let mut client = env.serve().initialize("it");
    let opened = FileOpenWatcher::watch(&[&agents]);
    // A file that was written a moment ago is read each time.
    wait_for(PATIENCE, "a call that opens no definition", || {
        opened.names();
        run(&env, &mut client);
        opened.names().is_empty().then_some(())
    });
    let text = "---\ndescription: another one\nbackend: nothing\n---\n";
    std::fs::write(agents.join("other-7.md"), text).unwrap();
    let listed = client.call("list_agents", json!({"directory": env.project()}));
    let agents = listed["agents"].as_array().unwrap();
    let other = agents.iter().find(|agent| agent["name"] == "other-7").unwrap();
    assert_eq!(other["description"], "another one", "a change counts at once");
    let only_changed = BTreeSet::from(["other-7.md".to_owned()]);
    assert_eq!(BTreeSet::from_iter(opened.names()), only_changed);
    // While it is young, it alone is read again.
    run(&env, &mut client);
    assert!(BTreeSet::from_iter(opened.names()).is_subset(&only_changed));
}
