//! The one integration binary: the real program, real processes, a real file system. One file per awkward
//! behaviour, named for it.

mod stage;

mod runs_an_agent;
