//! A directive: an agent that is defined as a procedure. Readers of several formats produce it; it is resolved with
//! inputs and configuration when a run is admitted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::AccessRule;

/// What a directive declares besides name, description and inputs, which it has in common with every agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directive {
    pub version: Option<String>,
    /// The tools that its file declares. `None`: the file has no list, so the permissions determine the tools.
    pub tools: Option<Vec<DeclaredTool>>,
    /// The rules of its permissions. `None`: the file has no permissions, so only the declared tools count. Without a
    /// rule: the file has empty permissions, as a directive that only gives advice, so nothing is allowed.
    pub permissions: Option<Vec<AccessRule>>,
    pub model: DirectiveModel,
    pub limits: DirectiveLimits,
    pub steps: Vec<DirectiveStep>,
    pub criteria: Vec<Criterion>,
    pub outputs: Vec<DirectiveOutput>,
    /// The directive prefers to be started without waiting for its end.
    pub is_async: bool,
    /// What the model reads: the text of the procedure, with placeholders.
    pub instructions: String,
    /// Services that the directive needs and that do not exist here. Such a directive is refused.
    pub unsupported: Vec<UnsupportedFeature>,
    /// What the file says about itself and nothing acts on, such as its author or an estimate of its size.
    pub notes: Vec<DirectiveNote>,
}

/// Something that the file says about the directive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveNote {
    pub name: String,
    pub text: String,
}

/// One declared tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredTool {
    pub kind: DeclaredToolKind,
    /// A required tool that is missing refuses the run; a missing optional one is a warning.
    pub is_required: bool,
    /// The line of the file.
    pub line: u32,
}

/// The tools that a directive can declare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredToolKind {
    /// Patterns of paths. Reading includes listing and searching.
    ReadFiles {
        paths: Vec<String>,
    },
    WriteFiles {
        paths: Vec<String>,
    },
    /// Commands, each a program or a program with arguments.
    Shell {
        commands: Vec<Vec<String>>,
    },
    /// Tools of an MCP server; no names: all that the permissions allow.
    Mcp {
        server: String,
        tools: Vec<String>,
    },
    /// A script or tool of the project, by name.
    Script {
        name: String,
    },
    Fetch {
        hosts: Vec<String>,
    },
    /// Runs other directives.
    Directives,
    /// Searches or loads items of the project: `search`, `load`, `knowledge`.
    Items {
        action: String,
    },
}

/// The model that a directive asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveModel {
    /// A word that configuration maps to a model.
    pub tier: Option<String>,
    pub id: Option<String>,
    pub provider: Option<String>,
    /// Words or ids to try after it.
    pub fallback: Vec<String>,
}

/// The limits that a directive sets. They can only lower those of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveLimits {
    /// Calls of the model.
    pub steps: Option<u32>,
    pub timeout_ms: Option<u64>,
    /// Input and output of all calls.
    pub tokens: Option<u64>,
    /// Of one answer.
    pub output_tokens: Option<u32>,
    pub tool_calls: Option<u32>,
    pub cost_microusd: Option<u64>,
    /// Child runs.
    pub children: Option<u32>,
    pub depth: Option<u32>,
}

/// One step of the procedure, as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveStep {
    pub name: String,
    pub description: String,
}

/// A condition for success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    pub text: String,
    /// A command that must succeed. Without one, only the model claims that the condition holds.
    pub command: Option<Vec<String>>,
}

/// A value that the directive returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveOutput {
    pub name: String,
    /// A JSON schema type: `string`, `integer`, `number`, `boolean`, `array`, `object`; or `any`.
    pub kind: String,
    /// An output is required unless the file says otherwise.
    pub is_required: bool,
    pub description: String,
    /// Further restrictions as a JSON schema.
    pub schema: Option<Value>,
}

/// Something that a directive needs and that Volery does not offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedFeature {
    /// Its name in the file, such as `registry` or `bundler`.
    pub name: String,
    pub line: u32,
}
