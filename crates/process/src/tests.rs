//! Tests of the process module through its public interface. The example program `keeper` runs whole process trees,
//! since adopting orphans and forking a worker affect a whole process.

mod cgroups;
mod confinement;
mod containment;
mod end_alone;
mod hostile_commands;
mod limits;
mod proc_walk;
mod scenario;
mod spawning;
