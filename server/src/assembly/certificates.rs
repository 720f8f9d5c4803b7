//! Reads the certificate of the server again when its files change, and on a hang-up signal.

use std::sync::Arc;

use punctual::Clock;
use punctual::clock::add;

use super::reload::{Hangups, LOOK_INTERVAL};
use crate::tls::Tls;

/// Looks at the files until it is told to stop.
pub(super) async fn watch(tls: Tls, clock: Arc<dyn Clock>, stopped: impl Future<Output = ()>) {
    let mut stopped = std::pin::pin!(stopped);
    let mut hangups = Hangups::listen();
    loop {
        let forced = tokio::select! {
            () = &mut stopped => return,
            () = hangups.next() => true,
            () = clock.sleep_until(add(clock.now(), LOOK_INTERVAL)) => false,
        };
        tls.reload(forced, clock.now());
    }
}
