//! A message, and a job on a cron schedule.
#![allow(clippy::print_stdout)] // our own rule, not one of users

use punctual::{Job, Punctual};

#[derive(serde::Serialize, serde::Deserialize)]
struct Hello(String);

async fn greet(Hello(name): Hello) {
    println!("hello, {name}");
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let punctual = Punctual::builder()
        .handler("hello", greet)
        .job(Job::cron("night", "0 2 * * *"), || async { println!("good night") })
        .build()?;
    punctual.start().await?;
    punctual.publisher().publish("hello", &Hello("Ada".to_owned())).await?;
    tokio::signal::ctrl_c().await.ok();
    punctual.shutdown().await;
    Ok(())
}

// Output:
// hello, Ada
