//! The HTTP door against a scripted engine, byte by byte as a client sees it. Each file is named for what it shows.

mod stage;

mod begins_early;
mod conformance;
mod keeps_callers_apart;
mod keeps_its_bounds;
mod leaves_in_good_order;
mod lets_in_whom_it_knows;
mod speaks_both_generations;
mod tells_its_metrics;
