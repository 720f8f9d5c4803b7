//! Bare AMQP client of Service Bus, on the test double of the transport, since the service itself cannot be started
//! locally. The double shares the processor with both sides and uses the same AMQP library.

// The benchmark uses only a part of the double.
#[allow(dead_code, unused_imports)]
#[path = "../../../../transports/servicebus/tests/double/mod.rs"]
mod double;

use std::time::Duration;

use anyhow::Result;
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{Body, Data, Header, Message, Outcome};
use fe2o3_amqp::types::primitives::{Binary, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use futures_util::future::try_join_all;
use tokio::net::TcpStream;

pub(super) use self::double::Double;

use super::BATCH;
use super::comparison::{BenchClient, Names};
use crate::rates::BODY;

const FRAME_MAX: u32 = 64 * 1024;
/// Longer than any message stays unsettled here, so that none is delivered twice.
const LOCK_DURATION: Duration = Duration::from_secs(300);

/// Starts the double, which creates entities on first use.
pub(super) async fn start() -> Result<Double> {
    let double = Double::start(true).await?;
    let mut broker = double.broker();
    broker.requires_tokens = false;
    broker.lock_duration = LOCK_DURATION;
    drop(broker);
    Ok(double)
}

/// Topic with a subscription, a connection to send and one to receive.
pub(super) struct BareClient {
    sender: Sender,
    receiver: Receiver,
    _sessions: [SessionHandle<()>; 2],
    _connections: [ConnectionHandle<()>; 2],
}

impl BareClient {
    pub(super) async fn open(double: &Double, names: &Names) -> Result<Self> {
        let topic = names.bare();
        let (sending, mut outgoing) = connect(double.port(), "bench-out").await?;
        let (receiving, mut incoming) = connect(double.port(), "bench-in").await?;
        let receiver = Receiver::builder()
            .name("bench-in")
            .source(format!("{topic}/Subscriptions/bench"))
            .credit_mode(CreditMode::Auto(u32::try_from(2 * BATCH)?))
            .attach(&mut incoming)
            .await?;
        let sender = Sender::attach(&mut outgoing, "bench-out", topic).await?;
        let (sessions, connections) = ([outgoing, incoming], [sending, receiving]);
        Ok(Self { sender, receiver, _sessions: sessions, _connections: connections })
    }
}

async fn connect(port: u16, name: &str) -> Result<(ConnectionHandle<()>, SessionHandle<()>)> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let builder = Connection::builder().container_id(name).max_frame_size(FRAME_MAX);
    let builder = builder.sasl_profile(SaslProfile::Anonymous);
    let mut connection = builder.open_with_stream(stream).await?;
    let session = Session::begin(&mut connection).await?;
    Ok((connection, session))
}

impl BenchClient for BareClient {
    fn how(&self) -> &'static str {
        "the double of our tests; durable messages with the body alone, all outcomes of a batch awaited \
                               together, a batch accepted in one disposition"
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let mut outcomes = Vec::with_capacity(count);
        for _ in 0..count {
            let message = Message::builder()
                .header(Header { durable: true, ..Header::default() })
                .body(Data(Binary::from(BODY.to_vec())))
                .build();
            outcomes.push(self.sender.send_batchable(message).await?);
        }
        for outcome in try_join_all(outcomes).await? {
            anyhow::ensure!(matches!(outcome, Outcome::Accepted(_)), "a message was not accepted");
        }
        Ok(())
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        let mut infos = Vec::with_capacity(limit);
        for _ in 0..limit {
            let (info, message) = self.receiver.recv::<Body<Value>>().await?.into_parts();
            let is_same = match message.body {
                Body::Data(data) => {
                    data.into_iter().next().is_some_and(|piece| piece.0[..] == BODY)
                }
                _ => false,
            };
            anyhow::ensure!(is_same, "a message has a different body");
            infos.push(info);
        }
        self.receiver.accept_all(infos).await?;
        Ok(limit)
    }

    async fn close(self) -> Result<()> {
        self.sender.close().await?;
        self.receiver.close().await?;
        Ok(())
    }
}
