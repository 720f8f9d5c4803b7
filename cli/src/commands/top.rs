//! `punctual top`: queues, running work and the next runs in a terminal, as they change. Where nobody
//! looks, one picture is printed.

mod picture;

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
use crate::desk::{Desk, Reach, at_desk, line};
use picture::draw;

/// How long keys are waited for at once, so that one is answered soon.
const KEY_TIMEOUT: Duration = Duration::from_millis(200);
/// The size of the one picture that is printed.
const SIZE: (u16, u16) = (110, 40);

/// How often.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    reach: Reach,
    /// How long a picture stays, such as 2s.
    #[arg(long, value_name = "LENGTH", default_value = "2s", value_parser = parse_duration)]
    every: Duration,
}

/// What is shown.
pub(super) struct Scene {
    pub(super) whom: String,
    pub(super) now: punctual::jiff::Timestamp,
    pub(super) queues: Value,
    pub(super) running: Value,
    pub(super) next: Value,
    pub(super) dead: Value,
    /// Why the picture is an old one, when it is.
    pub(super) error: Option<String>,
}

/// Shows it until `q`.
pub(crate) fn run(arguments: &TopArgs) -> ExitCode {
    at_desk(&arguments.reach, async |desk| {
        if desk.json() || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return once(desk).await;
        }
        let mut terminal = ratatui::try_init()?;
        let watched = watch(desk, &mut terminal, arguments.every).await;
        ratatui::try_restore()?;
        watched
    })
}

async fn scene(desk: &Desk) -> Result<Scene> {
    let running = Call::get(&["messages"]).with("state", Some("running")).with("limit", Some(15));
    let next = Call::get(&["jobs"]).with("sort", Some("next")).with("limit", Some(10));
    let queues = desk.client.ask(Call::get(&["queues"])).await?;
    let running = desk.client.ask(running).await?;
    let next = desk.client.ask(next).await?;
    let dead = desk.client.ask(Call::get(&["dead-letters", "groups"])).await?;
    let whom = if desk.client.is_direct() { "the storage" } else { desk.client.base() }.to_owned();
    Ok(Scene { whom, now: desk.client.now(), queues, running, next, dead, error: None })
}

/// One picture, as text or as JSON.
async fn once(desk: &Desk) -> Result<()> {
    let scene = scene(desk).await?;
    let whole = json!({
        "queues": scene.queues["items"],
        "running": scene.running["items"],
        "next": scene.next["items"],
        "dead": scene.dead["items"],
    });
    if desk.json() {
        return desk.print(&whole, |_| String::new());
    }
    line(&text(&scene))
}

/// The picture as text.
fn text(scene: &Scene) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(SIZE.0, SIZE.1));
    let Ok(_) = terminal.draw(|frame| draw(frame, scene));
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(SIZE.0));
    let rows = rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
    let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end().to_owned()
}

async fn watch(
    desk: &Desk,
    terminal: &mut ratatui::DefaultTerminal,
    every: Duration,
) -> Result<()> {
    let mut shown = scene(desk).await?;
    loop {
        terminal.draw(|frame| draw(frame, &shown))?;
        let pauses = every.as_millis().div_ceil(KEY_TIMEOUT.as_millis()).max(1);
        for _ in 0..pauses {
            // A terminal is read by waiting for it; nothing else runs here meanwhile.
            if !poll(KEY_TIMEOUT)? {
                continue;
            }
            match read()? {
                Event::Key(key) if ends(key) => return Ok(()),
                _ => {
                    terminal.draw(|frame| draw(frame, &shown))?;
                }
            }
        }
        match scene(desk).await {
            Ok(new) => shown = new,
            Err(error) => shown.error = Some(error.to_string()),
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
