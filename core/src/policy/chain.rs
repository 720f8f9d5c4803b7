//! Chain: decides from the verdict on a message which of its links follow. None follows while the message is
//! due again, and cancelling a message ends its chain.

use super::Verdict;
use crate::model::{Link, LinkOn, Message};

/// Returns the links of a message that follow its end.
pub(crate) fn followers<'a>(
    message: &'a Message,
    verdict: &Verdict,
) -> impl Iterator<Item = &'a Link> {
    let end = match verdict {
        Verdict::Done => Some(LinkOn::Success),
        Verdict::Dead { .. } => Some(LinkOn::Failure),
        Verdict::Again { .. } | Verdict::Cancelled => None,
    };
    let links = message.relations.as_ref().map_or(&[][..], |relations| &relations.then);
    links
        .iter()
        .filter(move |link| end.is_some_and(|end| link.on == end || link.on == LinkOn::Always))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::model::{Body, DeadReason, Headers, Priority, Queue, Relations, Topic};
    use crate::policy::verdict::tests::{facts, handler_options, message};
    use crate::policy::{AttemptEnd, judge};

    fn link(on: LinkOn, topic: &str) -> Link {
        Link {
            on,
            topic: Topic::new(topic).unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            key: None,
            body: Body::empty(),
            headers: Headers::new(),
            delay: Duration::ZERO,
            handler_options: None,
            then: Vec::new(),
        }
    }

    // spec: U-50, C-10
    #[test]
    fn links_follow_success_failure_or_both_and_nothing_follows_a_retry_or_a_cancel() {
        let then = vec![
            link(LinkOn::Success, "thank"),
            link(LinkOn::Failure, "apologise"),
            link(LinkOn::Always, "count"),
            link(LinkOn::Success, "sibling"),
        ];
        let message = Message {
            relations: Some(Arc::new(Relations { then, ..Relations::default() })),
            ..message()
        };
        let after = |verdict: Verdict| -> Vec<String> {
            followers(&message, &verdict).map(|link| link.topic.to_string()).collect()
        };
        assert_eq!(after(Verdict::Done), ["thank", "count", "sibling"]);
        let dead = Verdict::Dead { reason: DeadReason::AttemptsSpent, error: None };
        assert_eq!(after(dead), ["apologise", "count"]);
        assert_eq!(after(Verdict::Cancelled), Vec::<String>::new());
        let again = judge(
            &facts(&message, &handler_options()),
            AttemptEnd::Snooze { wait: Duration::ZERO },
        )
        .verdict;
        assert_eq!(after(again), Vec::<String>::new());
    }
}
