//! The built-in tools of a directive: their names, what repeating a call of them does, and how a model sees them. The
//! texts are in `tools.json`. No text contains what is allowed: a model learns that from its instructions and denials.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::access::AccessKind;
use crate::conversation::ToolSpec;
use crate::directive::DirectiveOutput;
use crate::run::CallClass;

/// Descriptions and schemas by name.
static TEXTS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("tools.json")).expect("the file is valid, a test reads it")
});

/// The JSON schema types that an output can have.
const OUTPUT_TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// A built-in tool, in the order in which models see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopTool {
    ReadFile,
    WriteFile,
    EditFile,
    ListDirectory,
    SearchFiles,
    RunCommand,
    /// Returns more of the result of an earlier call.
    ReadOutput,
    ReportStep,
    Finish,
}

impl LoopTool {
    pub const ALL: [Self; 9] = [
        Self::ReadFile,
        Self::WriteFile,
        Self::EditFile,
        Self::ListDirectory,
        Self::SearchFiles,
        Self::RunCommand,
        Self::ReadOutput,
        Self::ReportStep,
        Self::Finish,
    ];

    /// Returns the name for people and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadFile => "filesystem.read",
            Self::WriteFile => "filesystem.write",
            Self::EditFile => "filesystem.edit",
            Self::ListDirectory => "filesystem.list",
            Self::SearchFiles => "filesystem.search",
            Self::RunCommand => "shell.run",
            Self::ReadOutput => "read_output",
            Self::ReportStep => "report_step",
            Self::Finish => "finish",
        }
    }

    /// Returns the name for models: services accept only letters, digits, `_` and `-`.
    pub fn model_name(self) -> String {
        self.name().replace('.', "_")
    }

    /// Returns the tool of a name. Some models write the name that they read in the procedure.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name || tool.model_name() == name)
    }

    /// Returns what repeating a call does. An edit compares the text before it writes, so it changes a file only once.
    pub fn class(self) -> CallClass {
        match self {
            Self::ReadFile
            | Self::ListDirectory
            | Self::SearchFiles
            | Self::ReadOutput
            | Self::ReportStep
            | Self::Finish => CallClass::Pure,
            Self::WriteFile | Self::EditFile => CallClass::Idempotent,
            Self::RunCommand => CallClass::Effect,
        }
    }

    /// Returns the kinds of uses that a call makes; none for a tool that every directive has.
    ///
    /// An edit reads, because its result reveals whether a text is in the file.
    pub fn needs(self) -> &'static [AccessKind] {
        match self {
            Self::ReadFile | Self::ListDirectory | Self::SearchFiles => &[AccessKind::Read],
            Self::WriteFile => &[AccessKind::Write],
            Self::EditFile => &[AccessKind::Read, AccessKind::Write],
            Self::RunCommand => &[AccessKind::Exec],
            Self::ReadOutput | Self::ReportStep | Self::Finish => &[],
        }
    }

    /// Returns the names of the arguments.
    pub(super) fn arguments(self) -> Vec<&'static str> {
        let properties = TEXTS[self.name()]["input_schema"]["properties"].as_object();
        properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
    }
}

/// Returns the tools as a model sees them, always in the same order, so that a service can cache them. The result of
/// `finish` has the form of the directive's outputs.
pub fn tool_specs(tools: &[LoopTool], outputs: &[DirectiveOutput]) -> Vec<ToolSpec> {
    let offered = LoopTool::ALL.into_iter().filter(|tool| tools.contains(tool));
    offered
        .map(|tool| {
            let mut input_schema = TEXTS[tool.name()]["input_schema"].clone();
            if tool == LoopTool::Finish && !outputs.is_empty() {
                let reason = input_schema["properties"]["result"].clone();
                input_schema["properties"]["result"] = json!({"anyOf": [outputs_schema(outputs), reason]});
            }
            let description = TEXTS[tool.name()]["description"].as_str().unwrap_or_default();
            ToolSpec { name: tool.model_name(), description: description.to_owned(), input_schema }
        })
        .collect()
}

/// Returns the JSON schema of an object with these outputs.
pub fn outputs_schema(outputs: &[DirectiveOutput]) -> Value {
    let mut properties = Map::new();
    for output in outputs {
        let mut schema = Map::new();
        if OUTPUT_TYPES.contains(&output.kind.as_str()) {
            schema.insert("type".to_owned(), json!(output.kind));
        }
        if !output.description.is_empty() {
            schema.insert("description".to_owned(), json!(output.description));
        }
        for (key, value) in output.schema.iter().filter_map(Value::as_object).flatten() {
            schema.entry(key.clone()).or_insert_with(|| value.clone());
        }
        properties.insert(output.name.clone(), Value::Object(schema));
    }
    let required: Vec<&str> =
        outputs.iter().filter(|output| output.is_required).map(|output| output.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required})
}
