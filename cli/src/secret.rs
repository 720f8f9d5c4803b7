//! Reads what must not be seen: from a person without showing it, from a program as one line.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use anyhow::Result;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::failure::{Code, Failure};

/// The most characters of a secret.
const LEN_MAX: usize = 4_096;

/// Asks for a secret. A program gives it as the first line of standard input.
pub(crate) fn ask(prompt: &str) -> Result<String> {
    let secret = if io::stdin().is_terminal() {
        write!(io::stderr(), "{prompt}: ")?;
        io::stderr().flush()?;
        let typed = unseen();
        writeln!(io::stderr())?;
        typed?
    } else {
        let mut line = String::new();
        io::stdin().lock().take(LEN_MAX as u64).read_line(&mut line)?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    };
    if secret.is_empty() {
        return Err(Failure::wrong(format!("{prompt}: nothing was given"))
            .hint("type it, or give it as the first line of standard input")
            .into());
    }
    Ok(secret)
}

/// Asks for a new password, twice where a person may mistype it.
pub(crate) fn ask_new() -> Result<String> {
    let password = ask("new password")?;
    if io::stdin().is_terminal() && ask("the same again")? != password {
        return Err(Failure::wrong("the two passwords are not the same").into());
    }
    Ok(password)
}

/// Puts the terminal back whatever happens.
struct Raw;

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
    }
}

/// Keys until the line ends, none of them shown.
fn unseen() -> Result<String> {
    enable_raw_mode()?;
    let _raw = Raw;
    let mut typed = String::new();
    loop {
        let Event::Key(KeyEvent { code, modifiers, kind, .. }) = read()? else { continue };
        if kind == KeyEventKind::Release {
            continue;
        }
        match code {
            KeyCode::Enter => return Ok(typed),
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                return Err(Failure::new(Code::Refused, "interrupted; nothing was changed").into());
            }
            KeyCode::Char(letter) if typed.chars().count() < LEN_MAX => typed.push(letter),
            KeyCode::Backspace => {
                typed.pop();
            }
            _ => {}
        }
    }
}
