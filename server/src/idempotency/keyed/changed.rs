//! Whether a repeat would undo what somebody has changed since the request was first made.

use std::slice::from_ref;

use jiff::Timestamp;

use super::{Keyed, Seen};
use crate::app::App;
use crate::audit::{Change, Entry};
use crate::caller::Caller;
use crate::problem::{Answer, Problem};

/// How many entries of the audit trail are read at once.
const ENTRIES: usize = 500;
/// The most pages of the trail that are looked through. A repeat that would need more is refused.
const PAGES_MAX: usize = 20;

impl Keyed {
    /// Refuses a repeat whose effect cannot be told from a later change by someone else.
    pub(crate) fn refuse_if_changed(&self, what: &str, changed_at: Timestamp) -> Answer<()> {
        match self.repeated() {
            Some(seen) if changed_at > seen.first_at => Err(seen.changed(what)),
            _ => Ok(()),
        }
    }

    /// The same for a change by the audit trail: refuses a repeat when somebody else, or its caller by another
    /// request, has changed the same thing since.
    pub(crate) async fn refuse_if_overtaken(
        &self,
        app: &App,
        caller: &Caller,
        change: &Change,
    ) -> Answer<()> {
        self.refuse_if_any_overtaken(app, caller, (change, &[])).await
    }

    /// The same for one change of many messages, each of which may have been changed by itself.
    pub(crate) async fn refuse_if_any_overtaken(
        &self,
        app: &App,
        caller: &Caller,
        (change, messages): (&Change, &[String]),
    ) -> Answer<()> {
        let Some(seen) = self.repeated() else { return Ok(()) };
        let what = format!("{} of {}", kind(change.what), change.target);
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let entries = app.audit().list(after.take(), ENTRIES).await?;
            for entry in &entries {
                if entry.at <= seen.first_at {
                    return Ok(());
                }
                if is_about(entry, (change.what, from_ref(&change.target)))
                    || is_about(entry, ("message.", messages))
                {
                    // The newest counts: what came before the change of the first run was known to it.
                    let is_own = is_of(entry, caller, change);
                    return if is_own { Ok(()) } else { Err(seen.changed(&what)) };
                }
            }
            match entries.last() {
                Some(last) if entries.len() == ENTRIES => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
        Err(seen.changed(&what))
    }

    fn repeated(&self) -> Option<&Seen> {
        self.0.as_ref().filter(|seen| seen.is_repeat)
    }
}

impl Seen {
    fn changed(&self, what: &str) -> Problem {
        Problem::conflict(format!(
            "{what} was changed after this request was first made, at {}, perhaps by this request; look at it, and use a new Idempotency-Key for another change",
            self.first_at
        ))
    }
}

/// Returns what kind of thing a change is about: `queue` of `queue.pause`.
fn kind(what: &str) -> &str {
    what.split_once('.').map_or(what, |(kind, _)| kind)
}

fn is_about(entry: &Entry, (what, targets): (&str, &[String])) -> bool {
    kind(&entry.what) == kind(what) && targets.contains(&entry.target)
}

/// Whether an entry is that of the first run. What is noted only afterwards is not compared.
fn is_of(entry: &Entry, caller: &Caller, change: &Change) -> bool {
    entry.what == change.what
        && entry.identity.as_ref() == Some(&caller.identity())
        && entry.target == change.target
        && entry.reason == change.reason
        && change.after.as_ref().is_none_or(|after| entry.after.as_ref() == Some(after))
}
