//! Back-off: the wait before the next attempt to reach a broker, which doubles up to a limit.

use std::time::Duration;

/// Waits between attempts: the first, twice as long after each failure, at most the last.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl BackOff {
    /// Returns a back-off from `first` to `max`.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first }
    }

    /// Returns how long to wait now, and doubles the next wait.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.max);
        wait
    }

    /// Starts again from the first wait, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_again_after_a_success() {
        let mut back_off = BackOff::new(Duration::from_secs(1), Duration::from_secs(5));
        let waits = [(); 4].map(|()| back_off.next_wait().as_secs());
        assert_eq!(waits, [1, 2, 4, 5]);
        back_off.reset();
        assert_eq!(back_off.next_wait(), Duration::from_secs(1));
    }
}
