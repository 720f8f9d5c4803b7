//! `punctual top`: shows queues, running messages and the next runs live. Without a terminal it prints them once.

mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use punctual::schedule::parse_duration;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use crate::client::Call;
use crate::command_context::{CommandContext, ConnectionArgs, print_line, run_command};
use view::draw;

/// Longest wait for a key.
const KEY_TIMEOUT: Duration = Duration::from_millis(200);
/// Width and height of the output without a terminal.
const SIZE: (u16, u16) = (110, 40);

/// Arguments of `punctual top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Refresh interval, such as 2s.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    every: Duration,
}

/// Data of one refresh.
pub(super) struct Snapshot {
    /// Name of the target: the server's address, or the storage.
    pub(super) target: String,
    pub(super) now: punctual::jiff::Timestamp,
    pub(super) queues: Value,
    pub(super) running: Value,
    pub(super) next: Value,
    pub(super) dead: Value,
    /// Error of the last refresh; the data is then old.
    pub(super) error: Option<String>,
}

/// Refreshes the view until `q`.
pub(crate) fn run(arguments: &TopArgs) -> ExitCode {
    run_command(&arguments.connection, async |context| {
        if context.json() || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return print_once(context).await;
        }
        let mut terminal = ratatui::try_init()?;
        let result = watch(context, &mut terminal, arguments.every).await;
        ratatui::try_restore()?;
        result
    })
}

async fn snapshot(context: &CommandContext) -> Result<Snapshot> {
    let running = Call::get(&["messages"]).with("state", Some("running")).with("limit", Some(15));
    let next = Call::get(&["jobs"]).with("sort", Some("next")).with("limit", Some(10));
    let queues = context.client.send(Call::get(&["queues"])).await?;
    let running = context.client.send(running).await?;
    let next = context.client.send(next).await?;
    let dead = context.client.send(Call::get(&["dead-letters", "groups"])).await?;
    let target =
        if context.client.is_direct() { "the storage" } else { context.client.base() }.to_owned();
    Ok(Snapshot { target, now: context.client.now(), queues, running, next, dead, error: None })
}

/// Prints one snapshot as text or as JSON.
async fn print_once(context: &CommandContext) -> Result<()> {
    let snapshot = snapshot(context).await?;
    let whole = json!({
        "queues": snapshot.queues["items"],
        "running": snapshot.running["items"],
        "next": snapshot.next["items"],
        "dead": snapshot.dead["items"],
    });
    if context.json() {
        return context.print(&whole, |_| String::new());
    }
    print_line(&text(&snapshot))
}

/// Returns a snapshot as text.
fn text(snapshot: &Snapshot) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(SIZE.0, SIZE.1));
    let Ok(_) = terminal.draw(|frame| draw(frame, snapshot));
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(SIZE.0));
    let rows = rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
    let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end().to_owned()
}

async fn watch(
    context: &CommandContext,
    terminal: &mut ratatui::DefaultTerminal,
    every: Duration,
) -> Result<()> {
    let mut shown = snapshot(context).await?;
    loop {
        terminal.draw(|frame| draw(frame, &shown))?;
        let waits = every.as_millis().div_ceil(KEY_TIMEOUT.as_millis()).max(1);
        for _ in 0..waits {
            // Blocks the thread; no other task runs in this process.
            if !poll(KEY_TIMEOUT)? {
                continue;
            }
            match read()? {
                Event::Key(key) if is_quit(key) => return Ok(()),
                _ => {
                    terminal.draw(|frame| draw(frame, &shown))?;
                }
            }
        }
        match snapshot(context).await {
            Ok(new) => shown = new,
            Err(error) => shown.error = Some(error.to_string()),
        }
    }
}

fn is_quit(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
