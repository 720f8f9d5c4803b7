//! `punctual import crontab`: a crontab becomes a configuration whose jobs do the same. What cannot be the
//! same is said, line by line.

mod days;
mod line;
mod write;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use punctual::jiff::tz::TimeZone;

use crate::failure::{Code, Failure, report};
use crate::render::counted;
use crate::terminal::tell;
use line::Reader;

/// The most bytes of a crontab.
const LEN_MAX: u64 = 1 << 20;

/// Which crontab, and how it is read.
#[derive(Debug, Args)]
pub(crate) struct CrontabArgs {
    /// The crontab, or `-` for standard input, as in `crontab -l | punctual import crontab -`.
    file: PathBuf,
    /// The lines name a user before the command, as in /etc/crontab; known by itself for that file and
    /// for those in /etc/cron.d.
    #[arg(long)]
    system: bool,
    /// The time zone the times are meant in; this machine's when not given. `CRON_TZ` wins.
    #[arg(long)]
    zone: Option<String>,
    /// The file to write, which must not be there; without one it goes to standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Converts it. Exit code 1 when some line could not be.
pub(crate) fn run(arguments: &CrontabArgs) -> ExitCode {
    convert(arguments).map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}

fn convert(arguments: &CrontabArgs) -> Result<()> {
    let (text, name) = read(&arguments.file)?;
    let system = arguments.system || is_system(&arguments.file);
    let zone =
        arguments.zone.clone().or_else(|| TimeZone::system().iana_name().map(ToOwned::to_owned));
    let mut reader = Reader::new(system, zone.clone());
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line);
    }
    let found = reader.finish();
    if zone.is_none() {
        tell(
            "note: the time zone of this machine is not known, so times are UTC; give --zone to change that",
        );
    }
    for note in &found.notes {
        tell(&format!("note: {note}"));
    }
    for warning in &found.warnings {
        tell(&format!("warning: {warning}"));
    }
    let configuration = write::configuration(&found, &name);
    match &arguments.output {
        Some(path) => {
            let mut file = File::create_new(path)
                .with_context(|| format!("cannot create {}", path.display()))?;
            file.write_all(configuration.as_bytes())?;
        }
        None => io::stdout().write_all(configuration.as_bytes())?,
    }
    let lines = found.lines as u64;
    tell(&format!(
        "Converted {} of {}.",
        lines - found.refused.len() as u64,
        counted(lines, "line")
    ));
    if found.refused.is_empty() {
        return Ok(());
    }
    for refused in &found.refused {
        tell(&format!("not converted: {refused}"));
    }
    let left = counted(found.refused.len() as u64, "line");
    Err(Failure::new(Code::Failed, format!("{left} could not be converted"))
        .hint("they stand as comments in the configuration; do those by hand")
        .into())
}

/// The text, and what it is called.
fn read(path: &Path) -> Result<(String, String)> {
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin()
            .lock()
            .take(LEN_MAX)
            .read_to_string(&mut text)
            .context("cannot read the crontab from standard input")?;
        return Ok((text, "a crontab".to_owned()));
    }
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(Code::Missing, format!("there is no file {}", path.display())).into()
        }
        _ => anyhow::Error::from(error).context(format!("cannot read {}", path.display())),
    };
    File::open(path)
        .map_err(missing)?
        .take(LEN_MAX)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let name =
        path.file_name().map_or("a crontab".into(), |name| name.to_string_lossy().into_owned());
    Ok((text, name))
}

fn is_system(path: &Path) -> bool {
    path == Path::new("/etc/crontab") || path.parent() == Some(Path::new("/etc/cron.d"))
}
