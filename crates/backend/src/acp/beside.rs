//! What a run wishes and the protocol has no words for: how each agent is told it in another way, as a part of the table
//! of agents. What an agent cannot be told is not among its capabilities, so that a warning names it.

use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::{Value, json};

use super::is_free;
use crate::contract::{Place, ProcessDrive, Setting, WorkFile};

/// How an agent is told what; nothing where it cannot be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    /// To do without what would not keep to rules or a level: told unless everything is allowed.
    pub(super) held: Option<Way>,
    /// To leave the directory's own instructions out.
    pub(super) no_context: Option<Way>,
    /// Which of its own tools there are.
    pub(super) tools: Option<Way>,
    pub(super) max_turns: Option<Way>,
    /// How hard to think, where a session has no option for it.
    pub(super) effort: Option<Way>,
}

/// A way to tell an agent a wish, called only if the run has it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Arguments(fn(&RunSpec) -> Vec<String>),
    /// Variables of its process, in the place of those that it has anyway.
    Variables(fn(&RunSpec) -> Vec<(&'static str, String)>),
    /// A file, and the argument that ends with its name.
    File {
        argument: &'static str,
        file: fn(&RunSpec) -> WorkFile,
    },
    /// Options of Claude Code, which the request for a session carries.
    Session(fn(&RunSpec) -> Value),
    /// What fits the process to its user does it.
    Adapted,
}

pub(super) const NOTHING: Beside =
    Beside { held: None, no_context: None, tools: None, max_turns: None, effort: None };

impl Beside {
    /// Returns the ways by which this run's wishes are told.
    fn of(self, spec: &RunSpec) -> impl Iterator<Item = Way> {
        let setup = &spec.setup;
        let wished = [
            self.held.filter(|_| !is_free(&setup.permission)),
            self.no_context.filter(|_| setup.context == Context::None),
            self.tools.filter(|_| setup.tools.is_some()),
            self.max_turns.filter(|_| setup.max_turns.is_some()),
            self.effort.filter(|_| setup.effort.is_some()),
        ];
        wished.into_iter().flatten()
    }

    /// Changes a prepared process such that its agent is told.
    pub(super) fn tell(self, spec: &RunSpec, place: &Place<'_>, drive: &mut ProcessDrive) {
        for way in self.of(spec) {
            match way {
                Way::Arguments(arguments) => drive.argv.extend(arguments(spec)),
                Way::Variables(variables) => {
                    for (name, value) in variables(spec) {
                        drive.set.retain(|(known, _)| known != name);
                        drive.set.push((name.to_owned(), Setting::Plain(value)));
                    }
                }
                Way::File { argument, file } => {
                    let file = file(spec);
                    drive.argv.push(format!("{argument}{}", place.file(&file.name)));
                    drive.files.push(file);
                }
                Way::Session(_) | Way::Adapted => {}
            }
        }
    }

    /// Returns what the request for a session carries beside what the protocol knows: what it always does, and what tells
    /// this run's wishes.
    pub(super) fn session_meta(self, spec: &RunSpec, always: Option<&str>) -> Option<Value> {
        let mut meta: Option<Value> = always.and_then(|meta| serde_json::from_str(meta).ok());
        for way in self.of(spec) {
            let Way::Session(options) = way else { continue };
            let meta = meta.get_or_insert_with(|| json!({}));
            for (name, value) in options(spec).as_object().into_iter().flatten() {
                meta["claudeCode"]["options"][name] = value.clone();
            }
        }
        meta
    }
}
