//! Renders an agent as Volery reads it, and the command that would start it.

use super::page::{Page, grant_line};
use super::text::one_line;
use super::text_style::TextStyle;
use engine::{AgentDetail, InvocationView};

/// Returns the page of `agents show`.
pub(crate) fn agent_page(shown: &AgentDetail, style: &TextStyle) -> String {
    let mut page = Page::new(style);
    let agent = &shown.agent;
    page.fact("agent", &one_line(&agent.name));
    page.fact("description", &one_line(&agent.description));
    match agent.built_in {
        true => {
            page.fact("file", "none: this agent is built in, since its program is installed or configured")
        }
        false => page.fact(
            "file",
            &format!(
                "{} ({} format, {} layer)",
                one_line(&style.short_path(&agent.file, Some(&shown.project))),
                agent.format,
                agent.layer
            ),
        ),
    }
    page.fact("backend", &one_line(&agent.backend));
    page.fact("model", &one_line(agent.model.as_deref().unwrap_or("the backend's default")));
    for (label, texts) in
        [("use when", &agent.use_when), ("avoid when", &agent.avoid_when), ("good at", &agent.capabilities)]
    {
        for (index, text) in texts.iter().enumerate() {
            page.fact(if index == 0 { label } else { "" }, &one_line(text));
        }
    }
    for (index, input) in agent.inputs.iter().enumerate() {
        let need = if input.required { "required" } else { "optional" };
        let default = input.default.as_ref().map(|text| format!(", default {text}")).unwrap_or_default();
        let line = format!("{} ({}, {need}{default}) {}", input.name, input.kind, input.description);
        page.fact(if index == 0 { "inputs" } else { "" }, one_line(&line).trim_end());
    }
    for (index, (key, value)) in shown.settings.iter().enumerate() {
        page.fact(if index == 0 { "settings" } else { "" }, &one_line(&format!("{key}: {value}")));
    }
    for grant in &shown.grants {
        page.fact("permission", &style.short_paths(&grant_line(grant), &shown.project));
    }
    for warning in &shown.warnings {
        page.fact("warning", &style.short_paths(&one_line(warning), &shown.project));
    }
    if let Some(problem) = &agent.problem {
        page.block("cannot run", &style.short_paths(problem, &shown.project));
    }
    if let Some(invocation) = &shown.invocation {
        add_invocation(&mut page, invocation);
    }
    page.block("system prompt", &shown.system_prompt);
    page.text
}

fn add_invocation(page: &mut Page<'_>, invocation: &InvocationView) {
    match invocation {
        InvocationView::Process { argv, env, files, prompt_on_stdin } => {
            let arguments: Vec<String> = argv.iter().map(|argument| format!("{argument:?}")).collect();
            page.block("started as", &arguments.join("\n"));
            if *prompt_on_stdin {
                page.block("prompt", "on standard input");
            }
            page.block("variables beside the base list", &env.join("\n"));
            page.block("files written for it", &files.join("\n"));
        }
        InvocationView::Loop => page.block("started as", "nothing is started: Volery itself takes the steps"),
    }
}
