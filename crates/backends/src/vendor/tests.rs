//! What a vendor's table says about its program is what a launch plan does.

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport};
use domain::setup::{Context, PromptMode, Temperature};
use serde_json::json;

use super::*;
use crate::registry::VENDORS;
use crate::test_fixtures;

/// Settings that are an existing file of JSON.
const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vendor_settings.json");

/// Kimi Code is given Volery's server with the others, although its table does not promise delegation.
const UNPROMISED: [(&str, Feature); 1] = [("kimi", Feature::Delegation)];

/// A change of a run that has an effect only on programs with the feature.
type Request = fn(&mut RunSpec);

const REQUESTS: [(Feature, Request); 14] = [
    (Feature::ReplacesPrompt, |spec| spec.setup.prompt_mode = PromptMode::Replace),
    (Feature::Effort, |spec| spec.setup.effort = Some("high".to_owned())),
    (Feature::ToolList, |spec| spec.setup.tools = Some(vec!["Read".to_owned()])),
    (Feature::SkipsProjectContext, |spec| spec.setup.context = Context::None),
    (Feature::OutputSchema, |spec| spec.setup.output_schema = Some(json!({"type": "object"}))),
    (Feature::TurnLimit, |spec| spec.setup.max_turns = Some(3)),
    (Feature::ExtraDirectories, |spec| spec.setup.extra_directories = vec!["/q".to_owned()]),
    (Feature::Temperature, |spec| spec.setup.temperature = Some(Temperature(700))),
    (Feature::VendorSettings, |spec| spec.setup.vendor_settings = Some(SETTINGS.to_owned())),
    (Feature::McpServers, |spec| spec.setup.mcp_servers = vec![server()]),
    (Feature::ServerTools, |spec| {
        let tools = Some(vec!["sing".to_owned()]);
        spec.setup.mcp_servers = vec![McpServer { tools, ..server() }];
    }),
    (Feature::ServerTimeouts, |spec| {
        spec.setup.mcp_servers = vec![McpServer { timeout_ms: Some(90_000), ..server() }];
    }),
    (Feature::Delegation, |spec| spec.delegates = Delegates::Anyone),
    (Feature::Forks, |spec| {
        spec.session = Some("s".parse().unwrap());
        spec.fork = true;
    }),
];

fn server() -> McpServer {
    let transport = Transport::Http { url: "http://127.0.0.1/mcp".into(), headers: Default::default() };
    McpServer { name: "birds".to_owned(), transport, tools: None, timeout_ms: None }
}

/// Returns everything that a launch plan gives to a program before it reads the program's output.
fn plan(vendor: &Vendor, change: impl Fn(&mut RunSpec)) -> Result<String, PrepareError> {
    let mut spec = test_fixtures::spec(vendor.name);
    change(&mut spec);
    let found = test_fixtures::located_program(&["/bin/program"]);
    let context = test_fixtures::launch_context(Some(&found));
    let mut launch = test_fixtures::process_launch_in(vendor, &context, &spec)?;
    let home = tempfile::tempdir().unwrap();
    let user = UserEnvironment { home: Some(home.path()), variable: &|_| None };
    vendor.apply_user_environment(&spec, &mut launch, &context, &user)?;
    let files: Vec<(String, String)> = launch
        .files
        .iter()
        .map(|file| (file.name.clone(), String::from_utf8_lossy(&file.content).into_owned()))
        .collect();
    let home = home.path().display().to_string();
    let text = format!("{:?} {:?} {:?} {files:?}", launch.argv, launch.env_overrides, launch.feed);
    Ok(text.replace(&home, "HOME"))
}

/// What a feature adds to: a server with chosen tools is compared with a server, a copy with a continued session.
fn baseline(feature: Feature) -> Request {
    match feature {
        Feature::ServerTools | Feature::ServerTimeouts => |spec| spec.setup.mcp_servers = vec![server()],
        Feature::Forks => |spec| spec.session = Some("s".parse().unwrap()),
        _ => |_| {},
    }
}

#[test]
fn a_program_gets_exactly_the_requests_that_its_table_lists() {
    // Codex gets these with the messages of its conversation; its own tests check them.
    let plans = VENDORS.iter().filter(|vendor| vendor.name != "codex");
    let mut wrong = Vec::new();
    for vendor in plans {
        for (feature, request) in REQUESTS {
            let is_listed = vendor.features.contains(&feature);
            let has_effect = match (plan(vendor, baseline(feature)), plan(vendor, request)) {
                (Ok(before), Ok(after)) => before != after,
                // A session of another name cannot be continued either.
                (Err(_), Err(_)) => false,
                (_, Err(error)) | (Err(error), _) => panic!("{}: {feature:?}: {error}", vendor.name),
            };
            if has_effect != is_listed && !UNPROMISED.contains(&(vendor.name, feature)) {
                wrong.push(format!("{}: {feature:?} has an effect: {has_effect}", vendor.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_table_names_nothing_twice() {
    for vendor in VENDORS {
        let is_repeated = |(at, feature): (usize, &Feature)| vendor.features[..at].contains(feature);
        assert!(!vendor.features.iter().enumerate().any(is_repeated), "{}", vendor.name);
        let same_name = VENDORS.iter().filter(|other| other.name == vendor.name).count();
        assert_eq!(same_name, 1, "{}", vendor.name);
    }
}
