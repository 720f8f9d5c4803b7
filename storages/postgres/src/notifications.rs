//! Notifications: new due times wake subscribers in this process at once and other processes a moment later.
//!
//! Subscribers are notified only of a due time earlier than the one they were last given, so a million messages
//! of next year wake none. Other processes get a NOTIFY after the commit, from a connection of its own: inside
//! the transaction it would serialize the commits of the whole database.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::backend::storage::{Notifier, WakeSource, Wakeup};
use punctual::model::Queue;

/// Notifiers of this process, and notifications that have to be sent to other processes.
#[derive(Default)]
pub(crate) struct Notifications {
    notifiers: Mutex<HashMap<WakeSource, SourceNotifier>>,
    outgoing: Mutex<OutgoingNotifications>,
}

struct SourceNotifier {
    notifier: Notifier,
    /// Due time before which subscribers know that nothing is due; none when they are awake.
    known_due: Option<i64>,
    /// Number of running due-time queries; their results may be older than a notification.
    queries: usize,
    count: u64,
}

impl Default for SourceNotifier {
    fn default() -> Self {
        Self { notifier: Wakeup::new().0, known_due: None, queries: 0, count: 0 }
    }
}

/// Notifications for other processes: the earliest due time of each source.
#[derive(Default)]
struct OutgoingNotifications {
    sources: HashMap<WakeSource, i64>,
    is_being_sent: bool,
}

/// Running query of the due time of a source; while it runs, every change notifies.
pub(crate) struct DueQuery<'a> {
    notifications: &'a Notifications,
    source: &'a WakeSource,
    count: u64,
}

impl DueQuery<'_> {
    /// Records the due time that the query returned; from now on only earlier ones notify.
    pub(crate) fn finish(self, due_at: Option<i64>) {
        let mut notifiers = self.notifications.notifiers();
        let known = notifiers.entry(self.source.without_filter()).or_default();
        if known.count == self.count {
            let due_at = due_at.unwrap_or(i64::MAX);
            known.known_due = Some(known.known_due.map_or(due_at, |known| known.max(due_at)));
        }
    }
}

impl Drop for DueQuery<'_> {
    fn drop(&mut self) {
        let mut notifiers = self.notifications.notifiers();
        let known = notifiers.entry(self.source.without_filter()).or_default();
        known.queries = known.queries.saturating_sub(1);
    }
}

impl Notifications {
    pub(crate) fn wakeup(&self, source: &WakeSource) -> Wakeup {
        self.notifiers().entry(source.without_filter()).or_default().notifier.wakeup()
    }

    /// Begins a query of the due time of a source.
    pub(crate) fn begin_query<'a>(&'a self, source: &'a WakeSource) -> DueQuery<'a> {
        let mut notifiers = self.notifiers();
        let known = notifiers.entry(source.without_filter()).or_default();
        known.queries += 1;
        DueQuery { notifications: self, source, count: known.count }
    }

    /// Notifies subscribers in this process that a source is due at an instant, if that is earlier than they
    /// know.
    pub(crate) fn notify(&self, source: &WakeSource, due_at: i64) {
        let notifier = {
            let mut notifiers = self.notifiers();
            let known = notifiers.entry(source.clone()).or_default();
            if known.queries == 0 && known.known_due.is_some_and(|known| due_at >= known) {
                return;
            }
            known.known_due = None;
            known.count = known.count.wrapping_add(1);
            known.notifier.clone()
        };
        notifier.notify();
    }

    /// Notifies every subscriber: notifications may have been missed.
    pub(crate) fn notify_all(&self) {
        let notifiers: Vec<Notifier> = {
            let mut notifiers = self.notifiers();
            notifiers
                .values_mut()
                .map(|known| {
                    known.known_due = None;
                    known.count = known.count.wrapping_add(1);
                    known.notifier.clone()
                })
                .collect()
        };
        for notifier in notifiers {
            notifier.notify();
        }
    }

    /// Queues a notification for other processes; returns whether the caller has to start sending.
    pub(crate) fn queue_outgoing(&self, source: WakeSource, due_at: i64) -> bool {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let first = outgoing.sources.entry(source).or_insert(due_at);
        *first = due_at.min(*first);
        !std::mem::replace(&mut outgoing.is_being_sent, true)
    }

    /// Takes the notifications to send now; when there are none, the caller stops sending.
    pub(crate) fn take_outgoing(&self) -> Vec<(WakeSource, i64)> {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let sources: Vec<(WakeSource, i64)> = outgoing.sources.drain().collect();
        outgoing.is_being_sent = !sources.is_empty();
        sources
    }

    fn notifiers(&self) -> MutexGuard<'_, HashMap<WakeSource, SourceNotifier>> {
        self.notifiers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most bytes of a notification; the server's limit is 8,000.
const PAYLOAD_LEN_MAX: usize = 7_900;

/// Encodes a notification: the sender, the due time and the source.
pub(crate) fn encode(sender: u64, source: &WakeSource, due_at: i64) -> String {
    let name = match source {
        WakeSource::Queue(queue) | WakeSource::Topics(queue, _) => format!("q{queue}"),
        WakeSource::Jobs => "j".to_owned(),
        WakeSource::Leases => "l".to_owned(),
    };
    let payload = format!("{sender:x} {due_at} {name}");
    if payload.len() > PAYLOAD_LEN_MAX { format!("{sender:x} {due_at} *") } else { payload }
}

/// Decodes a notification; no source means all of them.
pub(crate) fn decode(payload: &str) -> Option<(u64, i64, Option<WakeSource>)> {
    let mut parts = payload.splitn(3, ' ');
    let sender = u64::from_str_radix(parts.next()?, 16).ok()?;
    let due_at = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let source = match name.split_at_checked(1)? {
        ("q", queue) => Some(WakeSource::Queue(Queue::from(queue.to_owned()))),
        ("j", _) => Some(WakeSource::Jobs),
        ("l", _) => Some(WakeSource::Leases),
        _ => None,
    };
    Some((sender, due_at, source))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn source() -> WakeSource {
        WakeSource::Queue(Queue::default())
    }

    fn is_notified(wakeup: &mut Wakeup) -> bool {
        let notified = pin!(wakeup.notified());
        notified.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn only_a_due_time_earlier_than_the_last_result_notifies() {
        let notifications = Notifications::default();
        let mut notifier = notifications.wakeup(&source());
        notifications.notify(&source(), 50);
        assert!(is_notified(&mut notifier), "no due time was returned yet");
        notifications.begin_query(&source()).finish(Some(100));
        notifications.notify(&source(), 100);
        notifications.notify(&source(), 200);
        assert!(!is_notified(&mut notifier));
        notifications.notify(&source(), 99);
        assert!(is_notified(&mut notifier));
        notifications.notify(&source(), 1_000);
        assert!(is_notified(&mut notifier), "the woken subscriber has not queried again yet");
    }

    #[test]
    fn an_arrival_during_a_query_is_not_missed() {
        let notifications = Notifications::default();
        let here = source();
        notifications.begin_query(&here).finish(Some(100));
        let query = notifications.begin_query(&here);
        let mut notifier = notifications.wakeup(&here);
        notifications.notify(&here, 150);
        query.finish(Some(200));
        assert!(is_notified(&mut notifier), "the query may return 200");
        notifications.notify(&here, 250);
        assert!(
            is_notified(&mut notifier),
            "the result is older than the notification, so it is ignored"
        );
        drop(notifications.begin_query(&here));
        notifications.begin_query(&here).finish(Some(300));
        notifications.notify(&here, 300);
        assert!(!is_notified(&mut notifier), "a query without a result is forgotten");
    }

    #[test]
    fn the_latest_result_of_several_subscribers_counts() {
        let notifications = Notifications::default();
        let mut notifier = notifications.wakeup(&source());
        for due_at in [Some(100), Some(50)] {
            notifications.begin_query(&source()).finish(due_at);
        }
        notifications.notify(&source(), 50);
        assert!(is_notified(&mut notifier), "the first one sleeps until 100");
    }

    #[test]
    fn payloads_read_back_and_a_long_name_stands_for_every_source() {
        for source in [
            source(),
            WakeSource::Jobs,
            WakeSource::Leases,
            WakeSource::Queue(Queue::from("a b ü".to_owned())),
        ] {
            assert_eq!(decode(&encode(255, &source, -7)), Some((255, -7, Some(source))));
        }
        let long = WakeSource::Queue(Queue::from("x".repeat(9_000)));
        assert_eq!(decode(&encode(1, &long, 3)), Some((1, 3, None)));
        assert_eq!(decode("nonsense"), None);
    }

    #[test]
    fn one_task_sends_at_a_time_and_the_earliest_instant_is_sent() {
        let notifications = Notifications::default();
        assert!(notifications.queue_outgoing(source(), 9));
        assert!(!notifications.queue_outgoing(source(), 4));
        assert_eq!(notifications.take_outgoing(), [(source(), 4)]);
        assert!(!notifications.queue_outgoing(WakeSource::Jobs, 1), "it is still being sent");
        assert_eq!(notifications.take_outgoing().len(), 1);
        assert_eq!(notifications.take_outgoing().len(), 0);
        assert!(notifications.queue_outgoing(WakeSource::Jobs, 1));
    }
}
