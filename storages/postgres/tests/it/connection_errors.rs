//! Connection errors of a wrong address: a sentence, the right kind, and never the password.

use punctual::{ErrorKind, Storage};
use punctual_conformance::backend_tests;
use punctual_postgres::PostgresStorage;

use crate::schema::{TestSchema, enqueue, eventually};

punctual_conformance::cases! {
    an_unknown_database_is_named,
    an_unknown_role_is_refused,
    a_missing_server_is_unavailable,
    a_database_that_is_created_later_is_used_then,
    tls_is_as_requested_or_the_connection_fails,
    a_storage_that_was_closed_leaves_no_connection_behind,
}

async fn refused(url: &str) -> punctual::Error {
    let error = PostgresStorage::connect(url).await.unwrap_err();
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    error
}

async fn an_unknown_database_is_named() {
    let database = TestSchema::new();
    let url = format!("{}_not_there", database.address);
    let error = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("does not have this database"), "{error}");
}

async fn an_unknown_role_is_refused() {
    let database = TestSchema::new();
    let url = database.address.replace("postgres@", "unknown_role:s3cret@");
    let error = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("user or password"), "{error}");
}

async fn a_missing_server_is_unavailable() {
    let error = refused("postgres://ada:s3cret@127.0.0.1:1/nowhere").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

async fn a_database_that_is_created_later_is_used_then() {
    let database = TestSchema::new();
    let name = format!("it_later_{}", backend_tests::run_name());
    let (start, _) = database.address.rsplit_once('/').unwrap();
    let storage = PostgresStorage::builder(format!("{start}/{name}")).connect_lazy().unwrap();
    let error = storage.time().await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let admin = database.client().await;
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    eventually("the database is used", || async { storage.time().await.is_ok() }).await;
    enqueue(&storage, database.message()).await;
    assert_eq!(database.claim(&storage, 5).await.len(), 1);
    drop(storage);
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    admin.batch_execute(&drop).await.unwrap();
}

async fn a_storage_that_was_closed_leaves_no_connection_behind() {
    let database = TestSchema::new();
    let url = format!("{}?application_name={}", database.address, database.schema);
    let storage = PostgresStorage::builder(url).schema(&database.schema).connect().await.unwrap();
    eventually("it listens", || async { storage.notifies_across_processes() }).await;
    storage.close().await;
    assert!(storage.time().await.unwrap_err().is_temporary());
    let client = database.client().await;
    let text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    eventually("every connection is closed", || async {
        client.query_one(text, &[&database.schema]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
}

async fn tls_is_as_requested_or_the_connection_fails() {
    let database = TestSchema::new();
    let client = database.client().await;
    let speaks: String = client.query_one("SHOW ssl", &[]).await.unwrap().get(0);
    let require = format!("{}?sslmode=require", database.address);
    if speaks == "on" {
        // Encrypted without a check of the certificate, unless the check is requested.
        let storage = PostgresStorage::builder(require).schema(&database.schema).connect().await;
        storage.unwrap().time().await.unwrap();
        let error = refused(&format!("{}?sslmode=verify-full", database.address)).await;
        assert_eq!(
            error.kind(),
            ErrorKind::Invalid,
            "the certificate is of no public authority: {error}"
        );
    } else {
        let error = refused(&require).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let error = refused("postgres://postgres@127.0.0.1:1/x?sslmode=nonsense").await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
