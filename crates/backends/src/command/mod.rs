//! A custom command from a configuration: any program that takes a prompt and prints an answer.

mod options;
mod reader;

use domain::run::RunSpec;

pub use options::{Document, Match, Options, Output, PromptBy};

use crate::contract::{
    Backend, Capabilities, LaunchContext, LaunchPlan, PrepareError, ProcessLaunch, StdinFeed, WorkFile,
};
use crate::schema_prompt;

const SYSTEM_FILE: &str = "system.md";
const PROMPT_FILE: &str = "prompt.md";

pub struct Command;

impl Backend for Command {
    fn kind(&self) -> &'static str {
        "command"
    }

    fn capabilities(&self, options: &serde_json::Value) -> Capabilities {
        let argv = options["command"].as_array().cloned().unwrap_or_default();
        let uses = |placeholder: &str| {
            argv.iter().filter_map(|word| word.as_str()).any(|word| word.contains(placeholder))
        };
        Capabilities {
            system_prompt: uses("{system_file}"),
            model: uses("{model}"),
            session: uses("{session_id}"),
            output_schema: true,
            process: true,
            plain_text_output: options::writes_text(options),
            ..Capabilities::default()
        }
    }

    fn prepare(&self, spec: &RunSpec, context: &LaunchContext<'_>) -> Result<LaunchPlan, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: "command", reason };
        let options: Options =
            serde_json::from_value(spec.backend.options.clone()).map_err(|error| wrong(error.to_string()))?;
        if options.command.is_empty() {
            return Err(wrong("its command is empty".to_owned()));
        }
        let prompt = schema_prompt::prompt_with_schema(spec);
        let prompt_file = context.work_file_path(PROMPT_FILE);
        let system_file = context.work_file_path(SYSTEM_FILE);
        let values = [
            ("{prompt}", prompt.as_str()),
            ("{prompt_file}", prompt_file.as_str()),
            ("{system_file}", system_file.as_str()),
            ("{directory}", spec.directory.as_str()),
            ("{model}", spec.model.as_deref().unwrap_or_default()),
            ("{session_id}", spec.session.as_ref().map_or("", |session| session.as_str())),
        ];
        let mut argv: Vec<String> = options.command.iter().map(|word| replace(word, &values)).collect();
        let uses = |placeholder: &str| options.command.iter().any(|word| word.contains(placeholder));
        let mut files = Vec::new();
        if uses("{system_file}") {
            files.push(WorkFile::plain(SYSTEM_FILE, spec.system_prompt.as_str()));
        }
        if uses("{prompt_file}") {
            files.push(WorkFile::plain(PROMPT_FILE, prompt.as_str()));
        }
        let feed = match options.prompt {
            PromptBy::Stdin => StdinFeed::Whole(prompt.clone().into_bytes()),
            PromptBy::Arg => {
                if !uses("{prompt}") {
                    argv.push(prompt.clone());
                }
                StdinFeed::Nothing
            }
            PromptBy::File => StdinFeed::Nothing,
        };
        let reader = reader::for_output(&options);
        Ok(LaunchPlan::Process(ProcessLaunch {
            argv,
            env: options.env,
            optional_env: Vec::new(),
            env_overrides: Vec::new(),
            feed,
            directory: None,
            files,
            reader,
        }))
    }
}

/// Replaces placeholders in one pass, so that a prompt that contains `{model}` stays as it is.
fn replace(word: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(placeholder, _)| rest.starts_with(placeholder)) {
            Some((placeholder, value)) => {
                out.push_str(value);
                rest = &rest[placeholder.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
