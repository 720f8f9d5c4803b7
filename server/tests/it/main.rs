//! The server in process: every endpoint on the memory storage, with a clock that stands still until it is
//! told to move. One binary for all.

mod jobs;
mod jobs_acting;
mod jobs_defining;
mod jobs_editing;
mod jobs_occurrences;
mod moving;
mod schedules;
mod site;
