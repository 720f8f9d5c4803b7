//! Amazon SQS, as an emulator: `moto` from the Python package index, because the real one cannot be started locally.
//! An installed one is used, otherwise it is installed into a virtual environment in the user's cache folder.
//!
//! It listens on the loopback address only, accepts any key and secret, and stores everything in memory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::readiness::is_ready;
use super::virtual_environment::{self, VirtualEnvironment, runs};
use super::{Place, Server};

const MOTO: VirtualEnvironment =
    VirtualEnvironment { name: "moto", requirements: &["moto[server]==5.*"] };
/// Returns whether Python has it; much faster than importing it.
const LOOK: &str = "from importlib.util import find_spec as f\nimport sys\n\
                    sys.exit(not (f('moto') and f('flask')))";
/// Server script; a file in the server's folder, so that its command line identifies it as ours.
const SERVE: &str = include_str!("sqs.py");

/// A private emulator of SQS.
pub struct Sqs;

impl Server for Sqs {
    fn name(&self) -> &'static str {
        "sqs"
    }

    fn folder(&self) -> &'static str {
        "transports/sqs"
    }

    fn variable(&self) -> &'static str {
        "PUNCTUAL_SQS_URL"
    }

    fn is_installed(&self) -> bool {
        python().is_some()
    }

    fn packages(&self) -> Result<Vec<String>> {
        Ok(vec![virtual_environment::PACKAGE.to_owned()])
    }

    fn complete(&self) -> Result<()> {
        MOTO.create()
    }

    fn prepare(&self, place: &Place) -> Result<Command> {
        let Some(python) = python() else { bail!("moto is not installed") };
        let file = place.folder.join("serve.py");
        fs::write(&file, SERVE).with_context(|| format!("write {}", file.display()))?;
        let mut command = Command::new(python);
        command.arg(file).arg(place.port.to_string());
        Ok(command)
    }

    fn is_ready(&self, place: &Place) -> bool {
        is_ready(place.port, "/moto-api/data.json")
    }

    fn address(&self, place: &Place) -> String {
        format!("http://test:test@127.0.0.1:{}/", place.port)
    }
}

/// Returns the Python that has it.
fn python() -> Option<PathBuf> {
    MOTO.program("python")
        .into_iter()
        .chain([PathBuf::from("python3")])
        .find(|python| runs(python, LOOK))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::servers::Durability;

    #[test]
    fn a_port_without_a_server_is_not_ready() {
        let place = Place::create("sqs", Durability::Relaxed).unwrap();
        assert!(!Sqs.is_ready(&place));
        place.remove();
    }

    #[test]
    fn a_python_that_is_not_there_does_not_have_it() {
        assert!(!runs(Path::new("/no/python/of/this/name"), LOOK));
    }
}
