//! Certificate reload: reads the certificate again when its files change, and on SIGHUP.

use std::sync::Arc;

use punctual::Clock;
use punctual::clock::add;

use super::reload::{HangupSignals, POLL_INTERVAL};
use crate::tls::Tls;

/// Polls the files until `stopped` resolves.
pub(super) async fn watch(tls: Tls, clock: Arc<dyn Clock>, stopped: impl Future<Output = ()>) {
    let mut stopped = std::pin::pin!(stopped);
    let mut hangups = HangupSignals::listen();
    loop {
        let forced = tokio::select! {
            () = &mut stopped => return,
            () = hangups.next() => true,
            () = clock.sleep_until(add(clock.now(), POLL_INTERVAL)) => false,
        };
        tls.reload(forced, clock.now());
    }
}
