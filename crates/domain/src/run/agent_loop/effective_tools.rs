//! The tools that a directive gets: those that its file declares and its permissions allow. Each of the two is a layer
//! of access rules, so that a tool that is offered still cannot do more than both say.

use std::fmt;

use super::tools::LoopTool;
use crate::access::{
    AccessEffect, AccessKind, AccessLayer, AccessRule, AccessSubject, RuleProblem, RuleSource,
};
use crate::directive::{DeclaredTool, DeclaredToolKind, Directive};

const TOOLS_LAYER: &str = "the directive's tools";
const PERMISSIONS_LAYER: &str = "the directive's permissions";

/// What a directive that declares reading without paths may read.
const READ_DEFAULT: &str = "**/*";

/// The tools of a directive, and the rules that they are held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveTools {
    /// In the order in which models see them.
    pub tools: Vec<LoopTool>,
    /// Never empty: without rules, nothing is allowed.
    pub layers: Vec<AccessLayer>,
    /// If there is one, the directive cannot run.
    pub missing_required: Vec<MissingTool>,
    pub missing_optional: Vec<MissingTool>,
    pub unusable_rules: Vec<UnusableRule>,
}

/// A declared tool that the directive does not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    /// As people know it: `shell.run`, `supabase.get_project`.
    pub name: String,
    pub line: u32,
    pub reason: MissingReason,
}

/// Why a declared tool is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReason {
    /// Volery has no such tool.
    NotOffered,
    /// The declaration has no path or command, or none that is usable.
    AllowsNothing,
    /// The permissions allow no use of it.
    NotPermitted,
}

/// A rule that matches nothing, or, as a denial, everything of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableRule {
    pub rule: AccessRule,
    pub problem: RuleProblem,
}

impl fmt::Display for MissingTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, line, reason } = self;
        let reason = match reason {
            MissingReason::NotOffered => "is not available in Volery",
            MissingReason::AllowsNothing => "is declared without a usable path or command",
            MissingReason::NotPermitted => "is declared, but the permissions allow no use of it",
        };
        write!(formatter, "the tool {name} {reason} (line {line})")
    }
}

impl fmt::Display for UnusableRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, problem } = self;
        let effect = match rule.effect {
            AccessEffect::Allow => "allows nothing",
            AccessEffect::NeedsApproval | AccessEffect::Deny => "restricts every use of its kind",
        };
        write!(formatter, "the rule `{rule}` (line {}) {effect}: {problem}", rule.source.line)
    }
}

/// Returns the tools of a directive that is written in a file.
pub fn effective_tools(directive: &Directive, file: &str) -> EffectiveTools {
    let declared = directive.tools.as_deref().map(|tools| AccessLayer {
        name: TOOLS_LAYER.to_owned(),
        rules: tools.iter().flat_map(|tool| declared_rules(tool, file)).collect(),
    });
    let permitted = directive
        .permissions
        .as_ref()
        .map(|rules| AccessLayer { name: PERMISSIONS_LAYER.to_owned(), rules: rules.clone() });
    let (missing_required, missing_optional) = directive
        .tools
        .iter()
        .flatten()
        .filter_map(|tool| missing_reason(tool, file, permitted.as_ref()).map(|reason| (tool, reason)))
        .partition::<Vec<_>, _>(|(tool, _)| tool.is_required);
    let mut layers: Vec<AccessLayer> = declared.into_iter().chain(permitted).collect();
    if layers.is_empty() {
        // Without it, layers that are added later would decide alone.
        layers.push(AccessLayer { name: TOOLS_LAYER.to_owned(), rules: Vec::new() });
    }
    let is_offered =
        |tool: &LoopTool| tool.needs().iter().all(|kind| layers.iter().all(|layer| layer.may_allow(*kind)));
    let unusable = layers
        .iter()
        .flat_map(|layer| &layer.rules)
        .filter_map(|rule| rule.problem().map(|problem| UnusableRule { rule: rule.clone(), problem }));
    EffectiveTools {
        tools: LoopTool::ALL.into_iter().filter(is_offered).collect(),
        unusable_rules: unusable.collect(),
        missing_required: missing_required.into_iter().map(missing_tool).collect(),
        missing_optional: missing_optional.into_iter().map(missing_tool).collect(),
        layers,
    }
}

fn missing_tool((tool, reason): (&DeclaredTool, MissingReason)) -> MissingTool {
    MissingTool { name: declared_name(&tool.kind), line: tool.line, reason }
}

fn missing_reason(tool: &DeclaredTool, file: &str, permitted: Option<&AccessLayer>) -> Option<MissingReason> {
    let kind = match &tool.kind {
        DeclaredToolKind::ReadFiles { .. } => AccessKind::Read,
        DeclaredToolKind::WriteFiles { .. } => AccessKind::Write,
        DeclaredToolKind::Shell { .. } => AccessKind::Exec,
        DeclaredToolKind::Mcp { .. }
        | DeclaredToolKind::Script { .. }
        | DeclaredToolKind::Fetch { .. }
        | DeclaredToolKind::Directives
        | DeclaredToolKind::Items { .. } => return Some(MissingReason::NotOffered),
    };
    let own = AccessLayer { name: String::new(), rules: declared_rules(tool, file) };
    if !own.may_allow(kind) {
        return Some(MissingReason::AllowsNothing);
    }
    permitted.is_some_and(|layer| !layer.may_allow(kind)).then_some(MissingReason::NotPermitted)
}

/// Returns the rules that a declaration stands for.
fn declared_rules(tool: &DeclaredTool, file: &str) -> Vec<AccessRule> {
    let subjects: Vec<AccessSubject> = match &tool.kind {
        DeclaredToolKind::ReadFiles { paths } if paths.is_empty() => {
            vec![AccessSubject::Read(READ_DEFAULT.to_owned())]
        }
        DeclaredToolKind::ReadFiles { paths } => paths.iter().cloned().map(AccessSubject::Read).collect(),
        DeclaredToolKind::WriteFiles { paths } => paths.iter().cloned().map(AccessSubject::Write).collect(),
        DeclaredToolKind::Shell { commands } => commands.iter().cloned().map(AccessSubject::Exec).collect(),
        DeclaredToolKind::Mcp { server, tools } => {
            let names = if tools.is_empty() { vec!["*".to_owned()] } else { tools.clone() };
            names.into_iter().map(|tool| AccessSubject::Mcp { server: server.clone(), tool }).collect()
        }
        DeclaredToolKind::Fetch { hosts } => hosts.iter().cloned().map(AccessSubject::Reach).collect(),
        DeclaredToolKind::Directives => vec![AccessSubject::Delegate("*".to_owned())],
        DeclaredToolKind::Script { name } | DeclaredToolKind::Items { action: name } => {
            vec![AccessSubject::Runtime(name.clone())]
        }
    };
    let source = RuleSource { file: file.to_owned(), line: tool.line };
    let rule = |subject| AccessRule { effect: AccessEffect::Allow, subject, source: source.clone() };
    subjects.into_iter().map(rule).collect()
}

fn declared_name(kind: &DeclaredToolKind) -> String {
    match kind {
        DeclaredToolKind::ReadFiles { .. } => LoopTool::ReadFile.name().to_owned(),
        DeclaredToolKind::WriteFiles { .. } => LoopTool::WriteFile.name().to_owned(),
        DeclaredToolKind::Shell { .. } => LoopTool::RunCommand.name().to_owned(),
        DeclaredToolKind::Mcp { server, tools } if tools.is_empty() => format!("{server}.*"),
        DeclaredToolKind::Mcp { server, tools } => {
            tools.iter().map(|tool| format!("{server}.{tool}")).collect::<Vec<_>>().join(", ")
        }
        DeclaredToolKind::Script { name } => format!("script {name}"),
        DeclaredToolKind::Fetch { .. } => "fetch".to_owned(),
        DeclaredToolKind::Directives => "run_directive".to_owned(),
        DeclaredToolKind::Items { action } => action.clone(),
    }
}
