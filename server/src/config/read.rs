//! Reads a configuration: the file, the variables over it, the flags over both. Nothing is used before all
//! of it is right, and everything that is wrong is said at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_path_to_error::{Segment, Track};

use super::Config;
use super::places::{Place, Places};
use super::problem::{Problem, Problems};
use super::tree::Tree;
use crate::extract::strict::Strict;
use crate::wording::{Syntax, reworded, unknown_key};

/// The file that is read when none is named and it is there.
pub const FILE_DEFAULT: &str = "punctual.toml";
/// How the names of variables begin.
const PREFIX: &str = "PUNCTUAL__";
/// The most bytes of a file.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The most problems that are looked for.
const PROBLEMS_MAX: usize = 200;

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that was named; it must be there.
    pub file: Option<PathBuf>,
    /// Variables of the environment.
    pub variables: Vec<(String, String)>,
    /// Flags: which one, the key it sets, and its value.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// A configuration that was read, and where it came from.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// The file, when there was one.
    pub file: Option<PathBuf>,
    /// Where each key was said.
    pub places: Places,
}

impl Sources {
    /// A named file, or the usual one, and the variables of this process.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { file, variables, flags: Vec::new() }
    }

    /// Reads everything; refuses it with everything that is wrong.
    pub fn load(&self) -> Result<Loaded, Problems> {
        let file = match &self.file {
            Some(file) => Some(file.clone()),
            None => Some(PathBuf::from(FILE_DEFAULT)).filter(|file| file.exists()),
        };
        let text = file.as_deref().map(text_of).transpose().map_err(|one| Problems(vec![one]))?;
        let name = file.as_ref().map_or(FILE_DEFAULT.to_owned(), |file| file.display().to_string());
        let loaded = self.load_text(&name, text.as_deref().unwrap_or_default())?;
        Ok(Loaded { file, ..loaded })
    }

    /// Reads the text of a file instead of the file, and returns what it says.
    pub fn read(&self, name: &str, text: &str) -> Result<Config, Problems> {
        self.load_text(name, text).map(|loaded| loaded.config)
    }

    /// Reads the text of a file instead of the file.
    pub fn load_text(&self, name: &str, text: &str) -> Result<Loaded, Problems> {
        let (mut tree, mut problems) = Tree::of_file(name, text);
        #[cfg(feature = "otlp")]
        self.usual_telemetry(&mut tree);
        for (variable, value) in &self.variables {
            let Some(rest) = variable.strip_prefix(PREFIX) else { continue };
            let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
            tree.set(&path, value, Place::Variable(variable.clone()));
        }
        for (flag, key, value) in &self.flags {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            tree.set(&path, value, Place::Flag(flag));
        }
        let (config, misfits) = fit(&mut tree);
        // A line that is not TOML says nothing else.
        let broken: BTreeSet<String> = problems.iter().map(|one| one.place.clone()).collect();
        let found = misfits.into_iter().chain(config.check(&tree));
        problems.extend(found.filter(|one| !broken.contains(&one.place)));
        if problems.is_empty() {
            Ok(Loaded { config, file: None, places: tree.places })
        } else {
            Err(Problems(problems))
        }
    }

    /// What every program with OpenTelemetry is told by. Our own variables win.
    #[cfg(feature = "otlp")]
    fn usual_telemetry(&self, tree: &mut Tree) {
        let usual =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp"), ("OTEL_SERVICE_NAME", "service_name")];
        for (variable, key) in usual {
            let found =
                self.variables.iter().find(|(name, value)| name == variable && !value.is_empty());
            if let Some((_, value)) = found {
                let path = ["telemetry".to_owned(), key.to_owned()];
                tree.set(&path, value, Place::Variable(variable.to_owned()));
            }
        }
    }
}

/// The text of a file.
fn text_of(path: &Path) -> Result<String, Problem> {
    let refuse = |problem: String| Problem {
        place: path.display().to_string(),
        key: String::new(),
        problem,
    };
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(refuse(
            "there is no such file; name another one with --config, or write one with `punctual config example`"
                .to_owned(),
        )),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(refuse("it is no text in UTF-8; save it as such".to_owned()))
        }
        Err(error) => Err(refuse(format!("it cannot be read ({error}); check its permissions"))),
        Ok(length) if u64::try_from(length).is_ok_and(|length| length > FILE_BYTES_MAX) => {
            Err(refuse(format!("it is larger than {FILE_BYTES_MAX} bytes; split it")))
        }
        Ok(_) => Ok(text),
    }
}

/// Fits a tree into the configuration: what does not fit is noted and taken out, until the rest fits.
fn fit(tree: &mut Tree) -> (Config, Vec<Problem>) {
    let mut problems: Vec<Problem> = Vec::new();
    let mut earlier: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for _ in 0..PROBLEMS_MAX * 4 {
        let mut track = Track::new();
        let from = serde_path_to_error::Deserializer::new(&tree.value, &mut track);
        let error = match Config::deserialize(Strict(from)) {
            Ok(config) => return (config, problems),
            Err(error) => error,
        };
        let mut path: Vec<String> = track.path().iter().filter_map(part).collect();
        let mut texts = earlier.remove(&path).unwrap_or_default();
        texts.push(error.to_string());
        if tree.reread(&path) {
            earlier.insert(path, texts);
            continue;
        }
        let text = likeliest(texts);
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let problem = reworded(&text, &names, Syntax::Toml);
        if let Some((name, _)) = unknown_key(&text)
            && path.last() != Some(&name)
        {
            path.push(name);
        }
        // What is wrong because something inside was wrong has been said.
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

/// Of what was wrong with each reading of a variable, what says most: the first that is not just about its
/// type.
fn likeliest(mut texts: Vec<String>) -> String {
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
