//! Connection to the cluster: the client library opens and keeps it; the first one is checked here.

use std::time::Duration;

use punctual::Result;
use punctual::clock::add;
use rdkafka::error::RDKafkaErrorCode;

use crate::error;
use crate::producer::Producer;
use crate::settings::Settings;
use crate::topology::Topology;

/// How long to wait for another address of a broker after none was reached.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Fetches metadata, to check that the cluster is reachable and accepts the credentials.
pub(crate) async fn check(
    settings: &Settings,
    producer: &Producer,
    topology: &Topology,
) -> Result<()> {
    tokio::select! {
        metadata = topology.metadata(None) => metadata.map(|_| ()),
        // The client would retry until the timeout.
        code = failure(settings, producer) => {
            let reason = producer.last_error().reason(code);
            Err(error::map_code(code, "connect", settings.error_context(reason.as_deref())))
        }
    }
}

/// Waits until the client has found no broker, and for one more attempt: a host can have several addresses, which the
/// client tries one at a time.
async fn failure(settings: &Settings, producer: &Producer) -> RDKafkaErrorCode {
    let code = producer.last_error().connect_failure().await;
    let clock = &*settings.clock;
    clock.sleep_until(add(clock.now(), RETRY_WAIT)).await;
    code
}
