//! How many root runs may run at once on this machine.

use config::settings::Config;

/// The most slots without a configured number.
const COUNT_MAX: u64 = 16;

/// Returns the configured number of slots, else one per GiB of memory up to 16.
pub(crate) fn slot_count(config: &Config) -> u32 {
    if let Some(count) = &config.slots_count {
        return count.value;
    }
    let memory = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "the fields have other widths on other machines")]
    let bytes = u64::from(memory.totalram) * u64::from(memory.mem_unit);
    u32::try_from((bytes >> 30).clamp(1, COUNT_MAX)).unwrap_or(1)
}
