//! Conflicts of repeats: refuses a repeat that would undo a later change by another request.

use std::slice::from_ref;

use jiff::Timestamp;

use super::{KeyContext, Keyed};
use crate::app::App;
use crate::audit::{AuditEntry, Change};
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};

/// Page size of the audit trail.
const PAGE: usize = 500;
/// Largest number of pages of the trail that are read. A repeat that would need more is refused.
const PAGES_MAX: usize = 20;

impl Keyed {
    /// Refuses a repeat if the target was changed after the key was first used.
    pub(crate) fn refuse_if_changed(&self, what: &str, changed_at: Timestamp) -> ApiResult<()> {
        match self.repeated() {
            Some(context) if changed_at > context.first_at => Err(context.changed(what)),
            _ => Ok(()),
        }
    }

    /// Refuses a repeat if another caller, or its caller by another request, has changed the same target since,
    /// according to the audit trail.
    pub(crate) async fn refuse_if_overtaken(
        &self,
        app: &App,
        caller: &Caller,
        change: &Change,
    ) -> ApiResult<()> {
        self.refuse_if_any_overtaken(app, caller, (change, &[])).await
    }

    /// Like `refuse_if_overtaken` for a change of many messages, each of which may have been changed by itself.
    pub(crate) async fn refuse_if_any_overtaken(
        &self,
        app: &App,
        caller: &Caller,
        (change, messages): (&Change, &[String]),
    ) -> ApiResult<()> {
        let Some(context) = self.repeated() else { return Ok(()) };
        let what = format!("{} of {}", kind(change.what), change.target);
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let entries = app.audit().list(after.take(), PAGE).await?;
            for entry in &entries {
                if entry.at <= context.first_at {
                    return Ok(());
                }
                if is_about(entry, (change.what, from_ref(&change.target)))
                    || is_about(entry, ("message.", messages))
                {
                    // Only the newest entry counts: the first run knew those before its own.
                    let is_own = is_of(entry, caller, change);
                    return if is_own { Ok(()) } else { Err(context.changed(&what)) };
                }
            }
            match entries.last() {
                Some(last) if entries.len() == PAGE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
        Err(context.changed(&what))
    }

    fn repeated(&self) -> Option<&KeyContext> {
        self.0.as_ref().filter(|context| context.is_repeat)
    }
}

impl KeyContext {
    fn changed(&self, what: &str) -> Problem {
        Problem::conflict(format!(
            "{what} was changed after the first use of this Idempotency-Key at {}, perhaps by this request; read the current state, and use a new key for another change",
            self.first_at
        ))
    }
}

/// Returns the kind of target of an action: `queue` of `queue.pause`.
fn kind(what: &str) -> &str {
    what.split_once('.').map_or(what, |(kind, _)| kind)
}

fn is_about(entry: &AuditEntry, (what, targets): (&str, &[String])) -> bool {
    kind(&entry.what) == kind(what) && targets.contains(&entry.target)
}

/// Returns whether an entry is that of the first run. Values that are known only afterwards are not compared.
fn is_of(entry: &AuditEntry, caller: &Caller, change: &Change) -> bool {
    entry.what == change.what
        && entry.identity.as_ref() == Some(&caller.identity())
        && entry.target == change.target
        && entry.reason == change.reason
        && change.after.as_ref().is_none_or(|after| entry.after.as_ref() == Some(after))
}
