//! Conformance suite of all transports, each case in a schema of its own.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::{Error, Result, Transport};
use punctual_conformance::backend_tests::{self, Proxy, Slowness};
use punctual_conformance::transport::{self, Backend, Environment, Need, Stores};
use punctual_postgres::PostgresStorage;

static NEXT: AtomicU64 = AtomicU64::new(0);

struct Schema {
    address: String,
    name: String,
    proxy: Proxy,
}

impl Schema {
    async fn storage(&self) -> Result<Arc<PostgresStorage>> {
        let address = self.proxy.address();
        let sign = if address.contains('?') { '&' } else { '?' };
        let address = format!("{address}{sign}application_name={}", self.name);
        let builder = PostgresStorage::builder(&address).schema(&self.name).pool_size(4);
        Ok(Arc::new(builder.connect().await?))
    }

    /// Runs a statement on a separate connection, with the rights of the test.
    async fn administer(&self, statement: &str) -> std::result::Result<(), tokio_postgres::Error> {
        let (client, connection) =
            tokio_postgres::connect(&self.address, tokio_postgres::NoTls).await?;
        let driving = tokio::spawn(connection);
        client.batch_execute(statement).await?;
        drop(client);
        driving.await.map_or(Ok(()), |ended| ended)
    }
}

#[async_trait::async_trait]
impl Environment for Schema {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        Ok(transport::over(self.storage().await?))
    }

    async fn stores(&self) -> Result<Option<Stores>> {
        let storage = self.storage().await?;
        Ok(Some((storage.clone(), storage)))
    }

    /// Ends the sessions of this case alone, which are found by their application name.
    async fn cut(&self) -> Result<()> {
        let statement = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'",
            self.name
        );
        self.administer(&statement).await.map_err(|error| Error::internal(error.to_string()))
    }

    async fn slow_down(&self, slowness: Slowness) -> Result<()> {
        self.proxy.slow_down(slowness);
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        let name = &self.name;
        self.administer(&format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE"))
            .await
            .map_err(|error| Error::internal(error.to_string()))
    }
}

fn main() -> ExitCode {
    let backend = Backend::at("PUNCTUAL_POSTGRES_URL", |address| async move {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("transport_{}_{number}", backend_tests::run_name());
        let proxy = Proxy::to(&address).await;
        Ok(Schema { address, name, proxy })
    });
    let backend = backend
        .cannot(Need::ForeignMessages, "only Punctual writes to a storage")
        .cannot(Need::Restart, "other cases use the same server; connections are cut instead");
    transport::run("postgres", backend)
}
