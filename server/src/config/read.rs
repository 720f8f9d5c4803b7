//! Reading of a configuration: the file, environment variables over it, flags over both. Nothing is used before
//! all of it is valid, and all problems are reported together.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_path_to_error::{Segment, Track};

use super::Config;
use super::places::{Place, Places};
use super::problem::{ConfigError, ConfigErrors};
use super::tree::Tree;
use crate::extract::strict::Strict;
use crate::wording::{Syntax, reworded, unknown_key};

/// The file that is read when none is named and it exists.
pub const FILE_DEFAULT: &str = "punctual.toml";
/// Prefix of environment variables.
const PREFIX: &str = "PUNCTUAL__";
/// Largest size of a file in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Largest number of reported problems.
const PROBLEMS_MAX: usize = 200;

/// Sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The named file, which must exist; none for the default file.
    pub file: Option<PathBuf>,
    /// Environment variables.
    pub variables: Vec<(String, String)>,
    /// Flags: the name, the key it sets, and the value.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// A configuration and its origin.
#[derive(Clone, Debug, Default)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The file, if there was one.
    pub file: Option<PathBuf>,
    /// The place of each key.
    pub places: Places,
}

impl Sources {
    /// Returns the named or default file and the variables of this process as sources.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { file, variables, flags: Vec::new() }
    }

    /// Reads the configuration; fails with all problems.
    pub fn load(&self) -> Result<LoadedConfig, ConfigErrors> {
        let file = match &self.file {
            Some(file) => Some(file.clone()),
            None => Some(PathBuf::from(FILE_DEFAULT)).filter(|file| file.exists()),
        };
        let text =
            file.as_deref().map(text_of).transpose().map_err(|one| ConfigErrors(vec![one]))?;
        let name = file.as_ref().map_or(FILE_DEFAULT.to_owned(), |file| file.display().to_string());
        let loaded = self.load_text(&name, text.as_deref().unwrap_or_default())?;
        Ok(LoadedConfig { file, ..loaded })
    }

    /// Reads the text of a file instead of the file, and returns the configuration.
    pub fn read(&self, name: &str, text: &str) -> Result<Config, ConfigErrors> {
        self.load_text(name, text).map(|loaded| loaded.config)
    }

    /// Reads the text of a file instead of the file.
    pub fn load_text(&self, name: &str, text: &str) -> Result<LoadedConfig, ConfigErrors> {
        let (mut tree, mut problems) = Tree::of_file(name, text);
        #[cfg(feature = "otlp")]
        self.set_otel_variables(&mut tree);
        for (variable, value) in &self.variables {
            let Some(rest) = variable.strip_prefix(PREFIX) else { continue };
            let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
            tree.set(&path, value, Place::Variable(variable.clone()));
        }
        for (flag, key, value) in &self.flags {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            tree.set(&path, value, Place::Flag(flag));
        }
        let (config, type_problems) = deserialize(&mut tree);
        // A line that is not TOML has no other problems.
        let broken: BTreeSet<String> = problems.iter().map(|one| one.place.clone()).collect();
        let found = type_problems.into_iter().chain(config.check(&tree));
        problems.extend(found.filter(|one| !broken.contains(&one.place)));
        if problems.is_empty() {
            Ok(LoadedConfig { config, file: None, places: tree.places })
        } else {
            Err(ConfigErrors(problems))
        }
    }

    /// Applies the standard OpenTelemetry variables, which `PUNCTUAL__` variables override.
    #[cfg(feature = "otlp")]
    fn set_otel_variables(&self, tree: &mut Tree) {
        let variables =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp"), ("OTEL_SERVICE_NAME", "service_name")];
        for (variable, key) in variables {
            let found =
                self.variables.iter().find(|(name, value)| name == variable && !value.is_empty());
            if let Some((_, value)) = found {
                let path = ["telemetry".to_owned(), key.to_owned()];
                tree.set(&path, value, Place::Variable(variable.to_owned()));
            }
        }
    }
}

/// Reads the text of a file.
fn text_of(path: &Path) -> Result<String, ConfigError> {
    let refuse = |problem: String| ConfigError {
        place: path.display().to_string(),
        key: String::new(),
        problem,
    };
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(refuse(
            "the file does not exist; name another one with --config, or create one with `punctual config example`"
                .to_owned(),
        )),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(refuse("the file is not UTF-8 text; save it as UTF-8".to_owned()))
        }
        Err(error) => Err(refuse(format!("the file cannot be read ({error}); check its permissions"))),
        Ok(length) if u64::try_from(length).is_ok_and(|length| length > FILE_BYTES_MAX) => {
            Err(refuse(format!("the file is larger than {FILE_BYTES_MAX} bytes; make it smaller")))
        }
        Ok(_) => Ok(text),
    }
}

/// Deserializes a tree: invalid values are reported and removed until the rest is valid.
fn deserialize(tree: &mut Tree) -> (Config, Vec<ConfigError>) {
    let mut problems: Vec<ConfigError> = Vec::new();
    let mut earlier_errors: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for _ in 0..PROBLEMS_MAX * 4 {
        let mut track = Track::new();
        let from = serde_path_to_error::Deserializer::new(&tree.value, &mut track);
        let error = match Config::deserialize(Strict(from)) {
            Ok(config) => return (config, problems),
            Err(error) => error,
        };
        let mut path: Vec<String> = track.path().iter().filter_map(part).collect();
        let mut texts = earlier_errors.remove(&path).unwrap_or_default();
        texts.push(error.to_string());
        if tree.reread(&path) {
            earlier_errors.insert(path, texts);
            continue;
        }
        let text = most_specific(texts);
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let problem = reworded(&text, &names, Syntax::Toml);
        if let Some((name, _)) = unknown_key(&text)
            && path.last() != Some(&name)
        {
            path.push(name);
        }
        // A problem caused by a problem inside was reported already.
        let inside = format!("{}.", path.join("."));
        if !problems.iter().any(|known| known.key.starts_with(&inside)) {
            problems.push(tree.places.problem(&path, problem));
        }
        if problems.len() == PROBLEMS_MAX || !tree.remove(&path) {
            break;
        }
    }
    (Config::default(), problems)
}

/// Returns the most specific error of the readings of a variable: the first that is not only about the type.
fn most_specific(mut texts: Vec<String>) -> String {
    let place = texts.iter().position(|text| !text.starts_with("invalid type")).unwrap_or(0);
    texts.swap_remove(place)
}

fn part(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

#[cfg(test)]
mod tests;
