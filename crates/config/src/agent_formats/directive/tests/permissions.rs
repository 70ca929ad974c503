//! What permissions in all shapes allow.

use domain::access::{AccessEffect, AccessSubject};

use super::{accept, allowed, messages, sample, with_metadata};

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn read(path: &str) -> AccessSubject {
    AccessSubject::Read(path.to_owned())
}

fn write(path: &str) -> AccessSubject {
    AccessSubject::Write(path.to_owned())
}

fn exec(words: &[&str]) -> AccessSubject {
    AccessSubject::Exec(texts(words))
}

fn reach(host: &str) -> AccessSubject {
    AccessSubject::Reach(host.to_owned())
}

fn mcp(server: &str, tool: &str) -> AccessSubject {
    AccessSubject::Mcp { server: server.to_owned(), tool: tool.to_owned() }
}

fn delegate(agent: &str) -> AccessSubject {
    AccessSubject::Delegate(agent.to_owned())
}

fn runtime(tool: &str) -> AccessSubject {
    AccessSubject::Runtime(tool.to_owned())
}

fn every_execution() -> Vec<AccessSubject> {
    vec![
        read("**"),
        write("**"),
        exec(&["*"]),
        reach("*"),
        mcp("*", "*"),
        delegate("**"),
        runtime("script:**"),
    ]
}

#[test]
fn permissions_as_attributes() {
    let (_, directive, _) = sample("kiwi_tools");
    let rules = directive.permissions.unwrap();
    assert_eq!(
        allowed(&rules),
        [
            read("**/*"),
            write("out/**"),
            write("logs/{a,b}.txt"),
            exec(&["git"]),
            exec(&["npm", "test"]),
            exec(&["make", "**"]),
            mcp("database", "migrate"),
            mcp("database", "rollback"),
            mcp("tracker", "create"),
            mcp("calendar", "*"),
            exec(&["*"]),
            runtime("script:lint_schema"),
            delegate("**"),
            delegate("**"),
            runtime("script:**"),
            reach("api.example.org"),
            AccessSubject::Env("DEPLOY_TOKEN".to_owned()),
            exec(&["git", "push", "**"]),
        ]
    );
    let denied: Vec<_> = rules.iter().filter(|rule| rule.effect == AccessEffect::Deny).collect();
    assert_eq!(denied.len(), 2);
    assert_eq!((denied[0].source.file.as_str(), denied[0].source.line), ("d.md", 33));
    assert_eq!(denied[1].subject, write("secrets/**"));
}

#[test]
fn permissions_in_groups() {
    let rules = sample("kiwi_groups").1.permissions.unwrap();
    assert_eq!(
        allowed(&rules),
        [
            read("package.json"),
            read("src/**/*.ts"),
            write(".ai/**"),
            exec(&["npm", "install", "**"]),
            exec(&["mkdir"]),
            reach("registry.example.org"),
            reach("*.example.net"),
        ]
    );
}

#[test]
fn permissions_as_nested_elements() {
    let rules = sample("rye_after_fence").1.permissions.unwrap();
    assert_eq!(
        allowed(&rules),
        [
            read("**"),
            write("**"),
            exec(&["*"]),
            delegate("**"),
            mcp("mailbox", "letters.list_*"),
            runtime("script:project/count_words"),
            delegate("notes/sort"),
            delegate("rye/web/**"),
            runtime("search"),
            runtime("load:knowledge/notes/**"),
        ]
    );
    let lines: Vec<u32> = rules.iter().map(|rule| rule.source.line).collect();
    assert_eq!(lines, [16, 16, 17, 18, 19, 20, 21, 22, 24, 25]);
    let mut expected = every_execution();
    expected.extend([runtime("search"), runtime("load"), runtime("load:knowledge/handbook/**")]);
    assert_eq!(allowed(&sample("rye_everything").1.permissions.unwrap()), expected);
    assert_eq!(allowed(&sample("rye_template").1.permissions.unwrap()), [AccessSubject::Any]);
}

#[test]
fn permissions_in_frontmatter() {
    let rules = sample("ryeos").1.permissions.unwrap();
    assert_eq!(
        allowed(&rules),
        [
            read("**"),
            delegate("mail/sort"),
            runtime("search"),
            write("**"),
            runtime("search:knowledge/mail/**"),
            runtime("load:knowledge/mail/**"),
        ]
    );
    assert_eq!(rules[0].source.line, 22);
}

#[test]
fn names_of_tools_mean_ours() {
    let rules = |tool: &str| {
        let text =
            with_metadata(&format!("<permissions><execute><tool>{tool}</tool></execute></permissions>"));
        let directive = accept(&text, "d").1;
        let needs: Vec<String> = directive.unsupported.into_iter().map(|feature| feature.name).collect();
        (allowed(&directive.permissions.unwrap()), needs)
    };
    for (tool, subjects) in [
        ("*", every_execution()),
        ("rye.execute.tool.*", every_execution()),
        ("rye.file-system.fs_read", vec![read("**")]),
        ("rye/file-system/write", vec![write("**")]),
        ("tool:ryeos.file-system.edit_lines", vec![read("**"), write("**")]),
        ("rye.file-system.grep", vec![read("**")]),
        ("rye.bash.*", vec![exec(&["*"])]),
        ("rye.code.git.git", vec![exec(&["git"])]),
        ("rye.web.fetch", vec![reach("*")]),
        ("mcp.mail", vec![mcp("mail", "*")]),
        ("my-project/tools/count", vec![runtime("script:my-project/tools/count")]),
    ] {
        assert_eq!(rules(tool), (subjects, Vec::new()), "{tool}");
    }
    for (tool, service) in [
        ("rye.core.registry.registry", "registry"),
        ("rye.core.runtimes.state-graph.runtime", "graphs"),
        ("rye.core.*", "rye/core"),
        ("rye.mcp.add_server", "management of MCP servers"),
        ("rye.email.send", "rye.email.send"),
        ("rye.file-system.chmod", "rye.file-system.chmod"),
        ("rye.code.typescript.check", "rye.code.typescript.check"),
    ] {
        assert_eq!(rules(tool), (Vec::new(), vec![service.to_owned()]), "{tool}");
    }
}

#[test]
fn a_rule_that_is_not_understood_allows_nothing_and_a_denial_is_an_error() {
    for (rule, problem) in [
        (
            "read resource=\"filesystem\" path=\"a\" except=\"b\"",
            "the attribute \"except\" of <read> is unknown",
        ),
        (
            "read resource=\"filesystem\" path=\"~/a\"",
            "the path \"~/a\" begins with ~, which is not expanded",
        ),
        ("read resource=\"filesystem\" path=\"a/../b\"", "the path \"a/../b\" contains .."),
        (
            "execute resource=\"shell\" command=\"a; b\"",
            "the command \"a; b\" needs a shell, and there is none",
        ),
        ("execute resource=\"filesystem\" path=\"a\"", "<execute> means nothing for files"),
        (
            "execute resource=\"python\" module=\"os\"",
            "which modules a Python program imports cannot be limited",
        ),
        ("read resource=\"network\" endpoint=\"a b\"", "\"a b\" is not a host"),
        ("read resource=\"moon\" path=\"a\"", "<read> means nothing for the resource \"moon\""),
        ("write resource=\"env\" var=\"A\"", "a directive cannot set environment variables"),
        ("read resource=\"network\" endpoint=\"ftp://a\"", "\"ftp://a\" is not an address of HTTP"),
        ("execute resource=\"spawn\" action=\"rocket\"", "the action \"rocket\" is unknown"),
        ("own resource=\"shell\" command=\"a\"", "<own> is not a permission"),
        ("read path-x=\"a\"", "<read> has no resource=\"…\""),
        ("own", "<own> has no object"),
    ] {
        let text = with_metadata(&format!("<permissions><{rule}/></permissions>"));
        assert_eq!(messages(&text), [format!("3: warning: {problem}; the permission allows nothing")]);
        assert_eq!(accept(&text, "d").1.permissions, Some(Vec::new()));
        let denied = with_metadata(&format!("<permissions><deny><{rule}/></deny></permissions>"));
        assert_eq!(messages(&denied), [format!("3: error: {problem}, so nothing is denied")]);
    }
    let text = with_metadata("<permissions><execute><tool>a b</tool></execute></permissions>");
    assert_eq!(
        messages(&text),
        ["3: warning: \"a b\" is not the name of an item; the permission allows nothing"]
    );
    let text =
        with_metadata("<permissions><read resource=\"network\" endpoint=\"https://a.b/v1\"/></permissions>");
    assert_eq!(
        messages(&text),
        ["3: warning: only hosts can be limited, so \"https://a.b/v1\" means all of a.b"]
    );
    let text = with_metadata("<permissions><deny resource=\"shell\" command=\"rm\"/></permissions>");
    let rules = accept(&text, "d").1.permissions.unwrap();
    assert_eq!((rules[0].effect, &rules[0].subject), (AccessEffect::Deny, &exec(&["rm"])));
}
