//! `[dialects.NAME]`: what agents of one dialect get from their user.

use std::collections::{BTreeMap, BTreeSet};

use domain::dialect::DialectName;
use domain::inherit::Inherited;

use super::layer::Dialect;
use super::read::sections;
use crate::text::{Fields, Findings, Node, choice, list, quoted};

/// Reads the sections, one for each dialect that a file names.
pub(super) fn read(node: &Node, findings: &mut Findings<'_>) -> BTreeMap<DialectName, Dialect> {
    let mut dialects = BTreeMap::new();
    for entry in sections(node, "dialects", findings) {
        let Some(name) = DialectName::parse(&entry.key).filter(|name| *name != DialectName::Volery) else {
            let message = format!("{} is not the name of another system's dialect", quoted(&entry.key));
            let known = DialectName::ALL.iter().filter(|name| **name != DialectName::Volery);
            let known: Vec<&str> = known.map(|name| name.as_str()).collect();
            findings.error_with_hint(entry.place, message, format!("it can be {}", known.join(", ")));
            continue;
        };
        let within = format!("dialects.{}", name.as_str());
        let Some(mut fields) = Fields::open(&entry.node, &within, findings) else { continue };
        let inherit = fields.take("inherit").and_then(|node| read_inherit(node, name, findings));
        fields.close(findings);
        dialects.insert(name, Dialect { inherit });
    }
    dialects
}

fn read_inherit(node: &Node, name: DialectName, findings: &mut Findings<'_>) -> Option<BTreeSet<Inherited>> {
    let key = format!("dialects.{}.inherit", name.as_str());
    let words = Inherited::ALL.map(|item| (item.as_str(), item));
    let mut inherit = BTreeSet::new();
    for node in list(node, &key, findings)? {
        let item = choice(node, &key, &words, findings)?;
        if !name.inherits().contains(&item) {
            let message =
                format!("{} gives its agents no {}, so this has no effect", name.as_str(), item.as_str());
            findings.warning_with_hint(node.place, message, format!("remove {} here", item.as_str()));
        }
        inherit.insert(item);
    }
    Some(inherit)
}
