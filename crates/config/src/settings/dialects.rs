//! `[dialects.NAME]`: the items that agents of one dialect inherit from their user.

use std::collections::{BTreeMap, BTreeSet};

use domain::dialect::DialectName;
use domain::inherit::Inherited;

use super::layer::DialectSettings;
use super::read::sections;
use crate::text::{Diagnostics, Fields, Node, quote, read_choice, read_list};

/// Reads the sections, one for each dialect that a file names.
pub(super) fn read(node: &Node, diagnostics: &mut Diagnostics<'_>) -> BTreeMap<DialectName, DialectSettings> {
    let mut dialects = BTreeMap::new();
    for entry in sections(node, "dialects", diagnostics) {
        let Some(name) = DialectName::parse(&entry.key).filter(|name| *name != DialectName::Volery) else {
            let message = format!("{} is not the name of another system's dialect", quote(&entry.key));
            let known = DialectName::ALL.iter().filter(|name| **name != DialectName::Volery);
            let known: Vec<&str> = known.map(|name| name.as_str()).collect();
            diagnostics.error_with_hint(entry.location, message, format!("it can be {}", known.join(", ")));
            continue;
        };
        let within = format!("dialects.{}", name.as_str());
        let Some(mut fields) = Fields::open(&entry.node, &within, diagnostics) else { continue };
        let inherit = fields.take("inherit").and_then(|node| read_inherit(node, name, diagnostics));
        fields.close(diagnostics);
        dialects.insert(name, DialectSettings { inherit });
    }
    dialects
}

fn read_inherit(
    node: &Node,
    name: DialectName,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<BTreeSet<Inherited>> {
    let key = format!("dialects.{}.inherit", name.as_str());
    let words = Inherited::ALL.map(|item| (item.as_str(), item));
    let mut inherit = BTreeSet::new();
    for node in read_list(node, &key, diagnostics)? {
        let item = read_choice(node, &key, &words, diagnostics)?;
        if !name.inherits().contains(&item) {
            let message =
                format!("{} gives its agents no {}, so this has no effect", name.as_str(), item.as_str());
            diagnostics.warning_with_hint(node.location, message, format!("remove {} here", item.as_str()));
        }
        inherit.insert(item);
    }
    Some(inherit)
}
