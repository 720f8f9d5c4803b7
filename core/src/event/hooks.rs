//! Event hooks: callbacks that are called for every event and miss none, as exporters of metrics need. A hook
//! runs where the event is emitted, so it must be quick; a panic in it is caught.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Event;

type Hook = Box<dyn Fn(&Event) + Send + Sync>;

/// Hooks of a process, in the order of registration.
#[derive(Default)]
pub(super) struct EventHooks(Vec<Hook>);

impl EventHooks {
    pub(super) fn add(&mut self, hook: impl Fn(&Event) + Send + Sync + 'static) {
        self.0.push(Box::new(hook));
    }

    pub(super) fn call(&self, event: &Event) {
        for hook in &self.0 {
            let _ = catch_unwind(AssertUnwindSafe(|| hook(event)));
        }
    }
}

impl fmt::Debug for EventHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hooks", self.0.len())
    }
}
