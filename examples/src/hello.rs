//! A message, sent now and handled immediately.
#![allow(clippy::print_stdout)] // our own rule, not one of users

use punctual::Punctual;

#[derive(serde::Serialize, serde::Deserialize)]
struct Hello(String);

async fn greet(Hello(name): Hello) {
    println!("hello, {name}");
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let punctual = Punctual::builder().handler("hello", greet).build()?;
    punctual.start().await?;
    punctual.publisher().publish("hello", &Hello("Ada".to_owned())).await?;
    tokio::signal::ctrl_c().await.ok();
    punctual.shutdown().await;
    Ok(())
}

// Output:
// hello, Ada
