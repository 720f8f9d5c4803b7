//! Foreign client: another MQTT library, which does not know Punctual.

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, PublishProperties};
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};

/// Limit of the packets read while waiting for an expected one.
const PACKETS_MAX: usize = 10_000;

/// Returns a client of the broker at a URL of the form `mqtt://host:port`.
pub(crate) fn client(url: &str) -> (AsyncClient, EventLoop) {
    let broker = url.trim_start_matches("mqtt://").trim_end_matches('/');
    let (host, port) = broker.split_once(':').unwrap();
    // No identifier: the broker assigns one.
    let mut options = MqttOptions::new("", host, port.parse().unwrap());
    options.set_clean_start(true);
    AsyncClient::new(options, 100)
}

/// Publishes a message and waits until it is confirmed.
pub(crate) async fn publish(
    url: &str,
    name: &str,
    body: &[u8],
    headers: &[(&str, &str)],
) -> Result<(), String> {
    let (client, mut events) = client(url);
    let headers = headers.iter();
    let properties = PublishProperties {
        user_properties: headers.map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        ..PublishProperties::default()
    };
    let sent =
        client.publish_with_properties(name, QoS::AtLeastOnce, false, body.to_vec(), properties);
    sent.await.map_err(|error| error.to_string())?;
    wait_until(&mut events, |packet| matches!(packet, Packet::PubAck(_)).then_some(())).await
}

/// Waits for an expected packet.
pub(crate) async fn wait_until<T>(
    events: &mut EventLoop,
    mut wanted: impl FnMut(Packet) -> Option<T>,
) -> Result<T, String> {
    for _ in 0..PACKETS_MAX {
        let event = events.poll().await.map_err(|error| error.to_string())?;
        if let Event::Incoming(packet) = event
            && let Some(found) = wanted(packet)
        {
            return Ok(found);
        }
    }
    Err("it did not come".to_owned())
}
