//! Conformance suite of all storages, each case in a schema of its own.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::{Error, Result};
use punctual_conformance::backend_tests;
use punctual_conformance::storage::{self, Backend, Environment, Node};
use punctual_postgres::PostgresStorage;

static NEXT: AtomicU64 = AtomicU64::new(0);

struct Schema {
    address: String,
    name: String,
}

#[async_trait::async_trait]
impl Environment for Schema {
    async fn open(&self) -> Result<Node> {
        let builder = PostgresStorage::builder(&self.address).schema(&self.name).pool_size(4);
        Ok(Node::new(Arc::new(builder.connect().await?)))
    }

    async fn remove(&self) -> Result<()> {
        drop_schema(&self.address, &self.name)
            .await
            .map_err(|error| Error::internal(error.to_string()))
    }
}

async fn drop_schema(address: &str, name: &str) -> std::result::Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await?;
    let driving = tokio::spawn(connection);
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE")).await?;
    drop(client);
    driving.await.map_or(Ok(()), |ended| ended)
}

fn main() -> ExitCode {
    let backend = Backend::at("PUNCTUAL_POSTGRES_URL", |address, _clock| async move {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("conformance_{}_{number}", backend_tests::run_name());
        Ok(Schema { address, name })
    });
    storage::run("postgres", backend.notifies_between_nodes())
}
