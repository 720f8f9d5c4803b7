//! The attribute [`macro@job`]. It parses a declaration, checks it with the parser of the
//! library itself, and expands it to builder calls: whatever the attribute can express,
//! `Job::cron(...)` can express too, with the same effect.
//!
//! It has no access to storages or other declarations. Two jobs of one name, and a calendar that
//! was not configured, are found by `build()`.

mod declaration;
mod expand;
mod options;
mod retry;
mod value;

use proc_macro::TokenStream;

/// Declares a job whose handler is this function.
///
/// The function is unchanged and can be called. The macro adds a type of the same name, which
/// `Builder::register::<name>()` takes, and which `Builder::discover()` finds.
///
/// | option | value | meaning |
/// |---|---|---|
/// | `name` | text, required | the job's name; stable, because stored data refers to it |
/// | `cron` | `"0 2 * * *"` | a cron expression of five or six fields |
/// | `zone` | `"Europe/Warsaw"` | the IANA zone the expression is read in; UTC otherwise |
/// | `every` | `"5m"` | a fixed interval instead |
/// | `anchor` | `"2026-01-01T00:00:00Z"` | the start of the intervals of `every`, or `"last run"` to restart them at each late run; the epoch otherwise |
/// | `once` | an instant | one run instead |
/// | `start`, `end` | an instant | no run before `start`; no run from `end` on |
/// | `runs_max` | a number | no more runs than this |
/// | `exclude` | a name or `["a", "b"]` | excludes calendars given to `Builder::calendar` |
/// | `misfire` | `"fire_now"`, `"fire_once"`, `"fire_all"`, `"skip_to_next"` | the policy for missed occurrences |
/// | `misfire_threshold` | `"10m"` | a run later than this is missed, not only late |
/// | `misfire_window` | `"1d"` | occurrences older than this are never run |
/// | `catch_up_max` | a number | the most occurrences that `fire_all` runs |
/// | `overlap` | `"skip"`, `"queue_one"`, `"allow"`, `"allow(3)"`, `"cancel_running"` | the policy while the previous run is alive |
/// | `retry` | `"1m, 5m"`, `"none"`, `"exponential"`, `"proportional"`, or with settings: `exponential(first = "10s", factor = 2.0, cap = "1h", jitter = 0.2)`, `proportional(ratio = 0.1, cap = "1h", floor = "1s")` | when a failed run is tried again |
/// | `attempts` | a number | the number of attempts, the first included |
/// | `timeout` | `"30m"` | the limit of an attempt |
/// | `on_timeout` | `"retry"`, `"fail"` | what a timeout leads to |
/// | `when_interrupted` | `"again"`, `"lost"` | whether a run that a crash or a shutdown interrupted is run again |
/// | `queue` | a name | the queue of its messages |
/// | `priority` | 0 to 9 | the priority of its messages; 9 is the most urgent |
/// | `spread` (or `jitter`) | `"stable 30s"`, `"random 10%"` | spreads the starts of runs |
/// | `topic` | a name | the topic of its handler; the name of the job otherwise |
/// | `tags` | a word or `["a", "b"]` | words for searching |
/// | `description` | text | the purpose, for operators |
/// | `must_report` | no value | its handler must report success or failure |
/// | `blocking` | no value | the function is a plain `fn` that blocks its thread |
///
/// Mistakes in a declaration are compile errors at their place:
///
/// ```text
/// error: hour (position 3): 25 is out of range, use 0 to 23
///  --> src/jobs.rs:4:39
///   |
/// 4 | #[job(name = "nightly-report", cron = "0 25 * * *")]
///   |                                       ^^^^^^^^^^^^
/// ```
#[proc_macro_attribute]
pub fn job(options: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(options.into(), function.into()).into()
}
