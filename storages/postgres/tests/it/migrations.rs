//! Migrations: applied once by many processes, refused when newer, usable without the right to create tables.

use punctual::{ErrorKind, Storage};
use punctual_conformance::backend_tests;
use punctual_postgres::{PostgresStorage, SCHEMA_VERSION};

use crate::schema::{TestSchema, enqueue};

punctual_conformance::cases! {
    many_concurrent_processes_create_the_tables_once,
    a_newer_schema_is_refused_with_both_versions,
    odd_names_work_and_impossible_ones_are_refused,
    a_role_without_rights_uses_a_schema_created_for_it,
    the_sql_for_administrators_creates_the_same_schema,
}

async fn many_concurrent_processes_create_the_tables_once() {
    let database = TestSchema::new();
    let opening: Vec<_> =
        (0..6).map(|_| tokio::spawn(database.builder().pool_size(1).connect())).collect();
    for opened in opening {
        let storage = opened.await.unwrap().unwrap();
        enqueue(&storage, database.message()).await;
    }
    let client = database.client().await;
    let count = format!("SELECT count(*) FROM \"{}\".migration", database.schema);
    let applied: i64 = client.query_one(&count, &[]).await.unwrap().get(0);
    assert_eq!(applied, i64::from(SCHEMA_VERSION));
}

async fn a_newer_schema_is_refused_with_both_versions() {
    let database = TestSchema::new();
    drop(database.open().await);
    let newer = format!("INSERT INTO \"{}\".migration VALUES (999, 'future')", database.schema);
    database.client().await.batch_execute(&newer).await.unwrap();
    let error = database.builder().connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("999") && text.contains(&SCHEMA_VERSION.to_string()), "{text}");
    let lazy = database.builder().connect_lazy().unwrap();
    assert_eq!(lazy.time().await.unwrap_err().kind(), ErrorKind::Unsupported);
}

async fn odd_names_work_and_impossible_ones_are_refused() {
    let mut database = TestSchema::new();
    database.schema = format!("Odd; name -- ü {}", backend_tests::run_name());
    let storage = database.open().await;
    enqueue(&*storage, database.message()).await;
    assert_eq!(database.claim(&*storage, 5).await.len(), 1);
    for name in ["", "a\"b", "pg_mine", "x\u{0}"] {
        let refused = PostgresStorage::builder(&database.address).schema(name).connect_lazy();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
    }
}

async fn a_role_without_rights_uses_a_schema_created_for_it() {
    let database = TestSchema::new();
    let role = format!("it_role_{}", backend_tests::run_name());
    let admin = database.client().await;
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let url = database.address.replace("postgres@", &format!("{role}@"));
    let refused = PostgresStorage::builder(&url).schema(&database.schema).connect().await;
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("may not create the schema"), "{error}");

    drop(database.open().await);
    let schema = &database.schema;
    let grant = format!(
        "GRANT USAGE ON SCHEMA \"{schema}\" TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{schema}\" TO {role}; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA \"{schema}\" TO {role}"
    );
    admin.batch_execute(&grant).await.unwrap();
    let used = PostgresStorage::builder(&url).schema(schema).connect().await.unwrap();
    enqueue(&used, database.message()).await;
    let claimed = database.claim(&used, 5).await;
    assert_eq!(crate::schema::settle(&used, &claimed).await.len(), 1);
    drop(used);
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

async fn the_sql_for_administrators_creates_the_same_schema() {
    let database = TestSchema::new();
    let sql = database.builder().migration_sql().unwrap();
    database.client().await.batch_execute(&sql).await.unwrap();
    let storage = database.open().await;
    enqueue(&*storage, database.message()).await;
    assert_eq!(database.claim(&*storage, 5).await.len(), 1);
}
