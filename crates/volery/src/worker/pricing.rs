//! What the run cost, where its agents told only tokens: by the prices of its user, else by those of the list.

use backend::prices;
use domain::price;
use domain::run::Usage;

use super::attempts;
use super::desk::Desk;
use crate::clock;

impl Desk {
    /// Returns what the run used, with a cost if it is known or can be computed.
    pub(super) fn usage(&self) -> Usage {
        let state = self.log.state();
        let at = clock::now().into();
        let cost = price::cost(state, |attempt, named| {
            let (backend, asked) = attempts::chosen(&self.spec, attempt.choice as usize);
            let model = named.or(asked.as_deref())?;
            let list = attempts::capabilities(backend).prices;
            self.spec.prices.get(model).copied().or_else(|| prices::listed(list, model, at))
        });
        Usage { cost, ..state.usage }
    }
}
