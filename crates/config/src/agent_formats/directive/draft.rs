//! What the readers of all formats collect: the directive so far, and its problems.

use domain::access::{AccessEffect, AccessRule, AccessSubject, RuleSource};
use domain::agent::AgentInput;
use domain::directive::{DeclaredTool, DeclaredToolKind, Directive, DirectiveNote, UnsupportedFeature};
use domain::nearest::nearest;

use super::xml::Element;
use crate::text::{Diagnostics, SourceLocation, quote};

/// A directive that is being read.
pub(super) struct DirectiveDraft<'d, 'a> {
    pub(super) diagnostics: &'d mut Diagnostics<'a>,
    pub(super) file: &'d str,
    pub(super) description: String,
    pub(super) tags: Vec<String>,
    pub(super) inputs: Vec<AgentInput>,
    pub(super) directive: Directive,
}

impl<'d, 'a> DirectiveDraft<'d, 'a> {
    pub(super) fn new(file: &'d str, diagnostics: &'d mut Diagnostics<'a>) -> Self {
        let (description, directive) = (String::new(), Directive::default());
        Self { diagnostics, file, description, tags: Vec::new(), inputs: Vec::new(), directive }
    }

    pub(super) fn warn(&mut self, location: SourceLocation, message: impl Into<String>) {
        self.diagnostics.warning(location, message);
    }

    /// Records something that the file says and nothing acts on.
    pub(super) fn note(&mut self, name: &str, text: &str) {
        if !text.trim().is_empty() {
            self.directive.notes.push(DirectiveNote { name: name.to_owned(), text: one_line(text) });
        }
    }

    /// Records a service that the directive needs and that Volery does not have.
    pub(super) fn unsupported(&mut self, location: SourceLocation, name: &str) {
        let message = format!("it needs {}, which Volery does not have, so it cannot be run", quote(name));
        self.warn(location, message);
        self.directive.unsupported.push(UnsupportedFeature { name: name.to_owned(), line: location.line });
    }

    pub(super) fn add_rule(
        &mut self,
        effect: AccessEffect,
        subject: AccessSubject,
        location: SourceLocation,
    ) {
        let source = RuleSource { file: self.file.to_owned(), line: location.line };
        let rules = self.directive.permissions.get_or_insert_default();
        let rule = AccessRule { effect, subject, source };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }

    /// Reports a rule that is not understood. One that allows something may be ignored; one that denies may not.
    pub(super) fn reject_rule(&mut self, effect: AccessEffect, location: SourceLocation, problem: &str) {
        match effect {
            AccessEffect::Allow | AccessEffect::NeedsApproval => {
                self.warn(location, format!("{problem}; the permission allows nothing"));
            }
            AccessEffect::Deny => {
                self.diagnostics.error(location, format!("{problem}, so nothing is denied"))
            }
        }
    }

    pub(super) fn declare_tool(
        &mut self,
        kind: DeclaredToolKind,
        is_required: bool,
        location: SourceLocation,
    ) {
        let tool = DeclaredTool { kind, is_required, line: location.line };
        self.directive.tools.get_or_insert_default().push(tool);
    }

    /// Reports text in an element that only has other elements.
    pub(super) fn reject_text(&mut self, element: &Element) {
        for line in element.text.lines().filter(|line| !line.trim().is_empty()) {
            let message = format!("text in <{}> is not used: {}", element.name, quote(line.trim()));
            self.warn(element.location, message);
        }
    }
}

/// The attributes of an element, taken one by one.
pub(super) struct ElementFields<'a> {
    pub(super) element: &'a Element,
    read_attributes: Vec<&'static str>,
}

impl<'a> ElementFields<'a> {
    pub(super) fn open(element: &'a Element) -> Self {
        Self { element, read_attributes: Vec::new() }
    }

    /// Takes the value of an attribute. One without a value counts as missing.
    pub(super) fn take(&mut self, name: &'static str) -> Option<&'a str> {
        self.read_attributes.push(name);
        self.element.attribute(name)
    }

    /// Takes the first of several attributes that mean the same.
    pub(super) fn take_any(&mut self, names: &[&'static str]) -> Option<&'a str> {
        let found: Vec<Option<&'a str>> = names.iter().map(|name| self.take(name)).collect();
        found.into_iter().flatten().next()
    }

    /// Returns the attributes that were not taken, and those that are written twice.
    pub(super) fn remaining(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        let mut remaining = Vec::new();
        for (name, _) in &self.element.attributes {
            if names.contains(&name.as_str()) || !self.read_attributes.contains(&name.as_str()) {
                remaining.push(name.as_str());
            }
            names.push(name);
        }
        remaining
    }

    /// Warns about every attribute that was not taken.
    pub(super) fn close(self, draft: &mut DirectiveDraft<'_, '_>) {
        let (name, location) = (&self.element.name, self.element.location);
        for attribute in self.remaining() {
            let value = self.element.attribute(attribute).unwrap_or_default();
            let message = format!("the attribute {}={} of <{name}> is ignored", attribute, quote(value));
            match nearest(attribute, self.read_attributes.iter().copied()).filter(|near| *near != attribute) {
                Some(near) => {
                    draft.diagnostics.warning_with_hint(location, message, format!("did you mean {near}?"));
                }
                None => draft.warn(location, message),
            }
        }
    }
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// Splits a list at its commas outside of braces, which belong to patterns of paths.
pub(super) fn split_list(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = text.split(|letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        matches!(letter, ',' | '\n') && depth == 0
    });
    parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}
