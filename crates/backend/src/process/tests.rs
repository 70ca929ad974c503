//! Tests of the process room, through its front door. Whole trees are played by the example `keeper`, since adopting
//! orphans and forking a worker concern a whole process.

mod containment;
mod groups;
mod limits;
mod playing;
mod spawning;
mod walking;
