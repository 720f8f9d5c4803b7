//! Secret input: read from the terminal without echo, or as one line of standard input.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use anyhow::Result;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::error::{Code, CommandError};

/// Largest number of characters of a secret.
const LEN_MAX: usize = 4_096;

/// Reads a secret: from the terminal after a prompt, else the first line of standard input.
pub(crate) fn prompt(label: &str) -> Result<String> {
    let secret = if io::stdin().is_terminal() {
        write!(io::stderr(), "{label}: ")?;
        io::stderr().flush()?;
        let typed = read_hidden();
        writeln!(io::stderr())?;
        typed?
    } else {
        let mut line = String::new();
        io::stdin().lock().take(LEN_MAX as u64).read_line(&mut line)?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    };
    if secret.is_empty() {
        return Err(CommandError::invalid_input(format!("the {label} is empty"))
            .hint("type it, or pass it as the first line of standard input")
            .into());
    }
    Ok(secret)
}

/// Reads a new password, twice on a terminal.
pub(crate) fn prompt_new_password() -> Result<String> {
    let password = prompt("new password")?;
    if io::stdin().is_terminal() && prompt("repeated password")? != password {
        return Err(CommandError::invalid_input("the two passwords differ").into());
    }
    Ok(password)
}

/// Guard that turns raw mode off when dropped.
struct RawMode;

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
    }
}

/// Reads a line from the terminal without echo.
fn read_hidden() -> Result<String> {
    enable_raw_mode()?;
    let _raw_mode = RawMode;
    let mut typed = String::new();
    loop {
        let Event::Key(KeyEvent { code, modifiers, kind, .. }) = read()? else { continue };
        if kind == KeyEventKind::Release {
            continue;
        }
        match code {
            KeyCode::Enter => return Ok(typed),
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                return Err(
                    CommandError::new(Code::Refused, "interrupted; nothing was changed").into()
                );
            }
            KeyCode::Char(letter) if typed.chars().count() < LEN_MAX => typed.push(letter),
            KeyCode::Backspace => {
                typed.pop();
            }
            _ => {}
        }
    }
}
