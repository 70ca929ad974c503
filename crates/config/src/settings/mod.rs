//! Configuration: one TOML file per layer, and the settings in force after merging, each with its origin.

mod backend;
mod dialects;
mod effective;
mod executables;
mod layer;
mod limits;
mod merge;
mod overlay;
mod placeholder;
mod prices;
mod project_bounds;
mod provider;
mod read;
mod tiers;
mod toml_spelling;

pub use backend::{Backend, CommandBackend, CommandOutput, PointerMatch, PromptDelivery, Protocol};
pub use effective::{Config, ConfigSetting, SettingRow};
pub use executables::executables;
pub use layer::{
    ClientSettings, ConfigLayer, DialectSettings, DisconnectChoice, RetentionSettings, RunSettings,
    ServeSettings, SlotSettings,
};
pub use limits::LimitSettings;
pub use merge::{defaults, merge};
pub use overlay::{Widening, widenings};
pub use placeholder::PLACEHOLDERS;
pub use project_bounds::ProjectBounds;
pub use provider::Provider;
pub use read::{ConfigFile, read};

#[cfg(test)]
mod tests;
