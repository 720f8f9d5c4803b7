//! Site clock: advances the manual clock of a running server from one due instant to the next.

use std::time::Duration;

use jiff::Timestamp;
use punctual::Builder;

use crate::site::Site;

const HOUR: Duration = Duration::from_hours(1);
/// Largest number of checks whether the server is idle.
const CHECKS_MAX: usize = 1_000;

impl Site {
    /// Builds and starts a server.
    pub(crate) async fn started(change: impl FnOnce(Builder) -> Builder) -> Self {
        let site = Self::with(|builder| {
            // No periodic polls, so that only notifications wake the tasks.
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

    /// Waits until everything that is due has run.
    pub(crate) async fn settled(&self) {
        let happened = || self.app.punctual.events().counts().map(|(_, count)| count).sum::<u64>();
        let mut seen = happened();
        let mut quiet = 0;
        for _ in 0..CHECKS_MAX {
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

    /// Advances the clock to an instant, running everything that becomes due on the way.
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

    /// Sets the clock to an instant at once, as after an outage.
    pub(crate) async fn jump_to(&self, instant: &str) {
        self.clock.set(instant.parse().unwrap());
        self.settled().await;
    }
}
