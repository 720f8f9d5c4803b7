//! The attribute [`macro@job`]. It reads a declaration, checks what can be seen in it with the parser
//! of the library itself, and spells it as the calls that a person would write by hand: whatever the
//! attribute can say, `Job::cron(...)` can say too, with the same effect.
//!
//! It knows nothing of storages or of other declarations. Two jobs of one name, and a calendar that
//! nobody gave, are found by `build()`.

mod declaration;
mod expand;
mod options;
mod retry;
mod value;

use proc_macro::TokenStream;

/// Declares a job whose handler is this function.
///
/// The function stays what it was and can be called. Beside it stands a type of the same name, which
/// `Builder::register::<name>()` takes, and which `Builder::discover()` finds.
///
/// | option | value | meaning |
/// |---|---|---|
/// | `name` | text, required | the job's name; stable, because what is stored goes by it |
/// | `cron` | `"0 2 * * *"` | a cron expression of five or six fields |
/// | `zone` | `"Europe/Warsaw"` | the IANA zone the expression is read in; UTC otherwise |
/// | `every` | `"5m"` | every so often instead |
/// | `anchor` | `"2026-01-01T00:00:00Z"` | where the counting of `every` begins, or `"last run"` to count anew from each late run; the epoch otherwise |
/// | `once` | an instant | once instead |
/// | `start`, `end` | an instant | nothing before; nothing from then on |
/// | `max_runs` | a number | no more runs than this |
/// | `exclude` | a name or `["a", "b"]` | leaves out calendars given to `Builder::calendar` |
/// | `misfire` | `"fire_now"`, `"fire_once"`, `"fire_all"`, `"skip_to_next"` | what happens with missed occurrences |
/// | `misfire_threshold` | `"10m"` | later than this is missed, not just late |
/// | `misfire_window` | `"1d"` | older than this is never run |
/// | `catch_up_max` | a number | how many `fire_all` makes up for |
/// | `overlap` | `"skip"`, `"queue_one"`, `"allow"`, `"allow(3)"`, `"cancel_running"` | what happens while the run before is alive |
/// | `retry` | `"1m, 5m"`, `"none"`, `"exponential"`, `"proportional"`, or with settings: `exponential(first = "10s", factor = 2.0, cap = "1h", jitter = 0.2)`, `proportional(ratio = 0.1, cap = "1h", floor = "1s")` | when a failed run is tried again |
/// | `attempts` | a number | how often in all, the first included |
/// | `timeout` | `"30m"` | how long a run may take |
/// | `on_timeout` | `"retry"`, `"fail"` | what too long leads to |
/// | `when_interrupted` | `"again"`, `"lost"` | whether a run that a crash or a shutdown has cut off is run again |
/// | `queue` | a name | the line its messages wait in |
/// | `priority` | 0 to 9 | how urgent they are |
/// | `spread` (or `jitter`) | `"stable 30s"`, `"random 10%"` | spreads the starts of runs |
/// | `topic` | a name | the topic of its handler, when that is not its name |
/// | `tags` | a word or `["a", "b"]` | words to find it by |
/// | `description` | text | what it is for |
/// | `must_report` | alone | its handler must report success or failure |
/// | `blocking` | alone | the function is a plain `fn` that blocks its thread |
///
/// What is wrong with a declaration is said where it stands:
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
