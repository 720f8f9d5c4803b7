//! A server whose jobs run: time moves from one thing that is due to the next, and each happens.

use std::time::Duration;

use jiff::Timestamp;
use punctual::Builder;

use crate::site::Site;

const HOUR: Duration = Duration::from_hours(1);
/// How often is looked whether everything has happened.
const LOOKS_MAX: usize = 1_000;

impl Site {
    /// A server that is started, with what the builder is given.
    pub(crate) async fn started(change: impl FnOnce(Builder) -> Builder) -> Self {
        let site = Self::with(|builder| {
            // Nothing happens here that nobody rings for.
            let builder = builder.options(|options| {
                options.poll_interval = HOUR;
                options.heartbeat_interval = HOUR;
                options.rescue_interval = HOUR;
                options.lease_duration = 3 * HOUR;
            });
            change(builder)
        });
        site.app.punctual.start().await.unwrap();
        site.settled().await;
        site
    }

    /// Lets everything happen that is due now.
    pub(crate) async fn settled(&self) {
        let happened = || self.app.punctual.events().counts().map(|(_, count)| count).sum::<u64>();
        let mut seen = happened();
        let mut quiet = 0;
        for _ in 0..LOOKS_MAX {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            quiet = if happened() == seen { quiet + 1 } else { 0 };
            seen = happened();
            if quiet >= 3 {
                return;
            }
        }
        panic!("things never settle");
    }

    /// Moves time on to an instant.
    pub(crate) async fn advance_to(&self, instant: &str) {
        let instant: Timestamp = instant.parse().unwrap();
        self.settled().await;
        while let Some(wake) = self.clock.next_wake().filter(|wake| *wake <= instant) {
            self.clock.set(wake.max(self.clock.now()));
            self.settled().await;
        }
        self.clock.set(instant.max(self.clock.now()));
        self.settled().await;
    }

    /// Lets nothing happen until an instant: time jumps over what was due.
    pub(crate) async fn jump_to(&self, instant: &str) {
        self.clock.set(instant.parse().unwrap());
        self.settled().await;
    }
}
