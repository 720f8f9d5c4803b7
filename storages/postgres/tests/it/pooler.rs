//! Fake pooler: it refuses settings at the start of a session.

use std::net::SocketAddr;

use punctual::{Clock, Storage, SystemClock};
use punctual_postgres::PostgresStorage;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::schema::{TestSchema, settle};

punctual_conformance::cases! {
    a_pooler_is_recognised_when_it_refuses_settings,
}

async fn a_pooler_is_recognised_when_it_refuses_settings() {
    let database = TestSchema::new();
    let config: tokio_postgres::Config = database.address.parse().unwrap();
    let server = format!("127.0.0.1:{}", config.get_ports()[0]);
    let address = pool(server).await;
    let url = format!("postgres://postgres@{address}/postgres");
    let storage = PostgresStorage::builder(url).schema(&database.schema).connect().await.unwrap();
    storage.enqueue(database.entries(700), SystemClock.now()).await.unwrap();
    let claimed = database.claim(&storage, 700).await;
    assert_eq!(settle(&storage, &claimed).await.len(), 700);
    assert!(!storage.check().await.unwrap().is_prepared, "a pooler keeps no session");
}

/// Forwards all traffic, except a start with settings.
async fn pool(server: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move { serve(client, &server).await });
        }
    });
    address
}

async fn serve(mut client: TcpStream, server: &str) -> std::io::Result<()> {
    loop {
        let length = client.read_u32().await?;
        let mut start = vec![0; length as usize - 4];
        client.read_exact(&mut start).await?;
        if start[..4] == 80_877_103u32.to_be_bytes() {
            // It does not support TLS.
            client.write_all(b"N").await?;
            continue;
        }
        if start.windows(9).any(|part| part == b"\0options\0") {
            let fields = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
            let length = u32::try_from(fields.len() + 4).unwrap();
            client.write_all(b"E").await?;
            client.write_u32(length).await?;
            return client.write_all(fields).await;
        }
        let mut server = TcpStream::connect(server).await?;
        server.write_u32(length).await?;
        server.write_all(&start).await?;
        copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
}
