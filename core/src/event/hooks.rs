//! Who hears of every event at once and misses none, as exporters of metrics must. A hook runs where the
//! event happens, so it must be quick; one that panics harms nobody.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Event;

type Hook = Box<dyn Fn(&Event) + Send + Sync>;

/// The hooks of a process, in the order they were given.
#[derive(Default)]
pub(super) struct Hooks(Vec<Hook>);

impl Hooks {
    pub(super) fn add(&mut self, hook: impl Fn(&Event) + Send + Sync + 'static) {
        self.0.push(Box::new(hook));
    }

    pub(super) fn tell(&self, event: &Event) {
        for hook in &self.0 {
            let _ = catch_unwind(AssertUnwindSafe(|| hook(event)));
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hooks", self.0.len())
    }
}
