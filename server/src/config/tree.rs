//! The configuration as one tree of values with the place each was said at. Files come first, variables
//! and flags over them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// How deep a file may nest.
const DEPTH_MAX: usize = 32;

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

/// Values and their places.
#[derive(Debug)]
pub(super) struct Tree {
    file: String,
    pub(super) value: Value,
    places: BTreeMap<Vec<String>, Place>,
    /// The text of variables, which have no types of their own.
    raw: BTreeMap<Vec<String>, Vec<Value>>,
}

impl Tree {
    pub(super) fn empty() -> Self {
        Self {
            file: "the configuration".to_owned(),
            value: Value::Object(Map::new()),
            places: BTreeMap::new(),
            raw: BTreeMap::new(),
        }
    }

    /// Reads the text of a file.
    pub(super) fn of_file(file: &str, text: &str) -> Result<Self, Problem> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| Lines::of(text).at(span.start));
            let problem = format!("{}; the file must be TOML", error.message());
            Problem { place: format!("{file}:{line}"), key: String::new(), problem }
        })?;
        let mut tree = Self { file: file.to_owned(), ..Self::empty() };
        tree.value = tree.table(table.get_ref(), &Lines::of(text), &mut Vec::new());
        Ok(tree)
    }

    fn table(&mut self, table: &DeTable<'_>, lines: &Lines, path: &mut Vec<String>) -> Value {
        let mut members = Map::new();
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.places.insert(path.clone(), Place::Line(lines.at(key.span().start)));
            let value = self.read(value, lines, path);
            members.insert(key.get_ref().to_string(), value);
            path.pop();
        }
        Value::Object(members)
    }

    fn read(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        lines: &Lines,
        path: &mut Vec<String>,
    ) -> Value {
        match value.get_ref() {
            DeValue::Table(table) if path.len() < DEPTH_MAX => self.table(table, lines, path),
            DeValue::Array(items) if path.len() < DEPTH_MAX => {
                let mut read = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.places.insert(path.clone(), Place::Line(lines.at(item.span().start)));
                    read.push(self.read(item, lines, path));
                    path.pop();
                }
                Value::Array(read)
            }
            scalar => scalar_value(scalar),
        }
    }

    /// Puts a value of a variable or flag over what is there.
    pub(super) fn set(&mut self, path: &[String], text: &str, place: Place) {
        let mut node = &mut self.value;
        let mut real = Vec::new();
        for (depth, part) in path.iter().enumerate() {
            if !node.is_object() {
                *node = Value::Object(Map::new());
            }
            let Value::Object(members) = node else { return };
            let key = existing(members, part);
            real.push(key.clone());
            self.places.entry(real.clone()).or_insert_with(|| place.clone());
            node = members.entry(key).or_insert(Value::Null);
            if depth + 1 == path.len() {
                let mut readings = readings(text);
                *node = readings.pop().unwrap_or_default();
                self.places.insert(real.clone(), place.clone());
                self.raw.insert(real.clone(), readings);
            }
        }
    }

    /// Another reading of what a variable says, when there is one left.
    pub(super) fn reread(&mut self, path: &[String]) -> bool {
        let Some(value) = self.raw.get_mut(path).and_then(Vec::pop) else { return false };
        let Some(node) = self.node(path) else { return false };
        *node = value;
        true
    }

    fn node(&mut self, path: &[String]) -> Option<&mut Value> {
        path.iter().try_fold(&mut self.value, |node, part| match node {
            Value::Object(members) => members.get_mut(part),
            Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Takes a value out; whether it was there.
    pub(super) fn remove(&mut self, path: &[String]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        match self.node(parents) {
            Some(Value::Object(members)) => members.remove(last).is_some(),
            // A list with a hole in it would be another list.
            Some(Value::Array(_)) => self.remove(parents),
            _ => false,
        }
    }

    /// Where a key was said; the nearest table around it when it was not said itself.
    pub(super) fn place(&self, path: &[String]) -> String {
        for end in (1..=path.len()).rev() {
            match self.places.get(&path[..end]) {
                Some(Place::Line(line)) => return format!("{}:{line}", self.file),
                Some(Place::Variable(name)) => return format!("the variable {name}"),
                Some(Place::Flag(name)) => return format!("the flag {name}"),
                None => {}
            }
        }
        self.file.clone()
    }

    /// Something wrong with a key.
    pub(super) fn problem(&self, path: &[String], problem: impl Into<String>) -> Problem {
        Problem { place: self.place(path), key: path.join("."), problem: problem.into() }
    }
}

/// The key that a part of a variable's name means: the same, or the same apart from case and from
/// characters that the name of a variable cannot have.
fn existing(members: &Map<String, Value>, part: &str) -> String {
    let folded = |text: &str| -> String {
        let letter = |c: char| if c.is_alphanumeric() { c } else { '_' };
        text.chars().map(letter).flat_map(char::to_lowercase).collect()
    };
    let found = members.keys().find(|key| *key == part);
    let found = found.or_else(|| members.keys().find(|key| folded(key) == folded(part)));
    found.cloned().unwrap_or_else(|| part.to_lowercase())
}

/// What a text may mean, the likeliest last: a list, a text, a number or a switch.
fn readings(text: &str) -> Vec<Value> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let mut readings = vec![Value::Array(items.map(Value::from).collect()), Value::from(text)];
    if let Ok(value) = DeValue::parse(text)
        && matches!(
            value.get_ref(),
            DeValue::Boolean(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Array(_)
        )
    {
        readings.push(plain(value.get_ref(), 0));
    }
    readings
}

fn plain(value: &DeValue<'_>, depth: usize) -> Value {
    match value {
        DeValue::Array(items) if depth < DEPTH_MAX => {
            items.iter().map(|item| plain(item.get_ref(), depth + 1)).collect()
        }
        scalar => scalar_value(scalar),
    }
}

fn scalar_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(is) => Value::from(*is),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::from(number.as_str()), Value::from),
        DeValue::Float(number) => number
            .as_str()
            .parse::<f64>()
            .map_or_else(|_| Value::from(number.as_str()), Value::from),
        DeValue::Datetime(instant) => Value::from(instant.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => Value::Null,
    }
}

/// Where the lines of a text end, so that the many places of a large file are found quickly.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let bytes = text.bytes().enumerate();
        Self(bytes.filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset).collect())
    }

    /// The line of a place, from 1.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|end| *end < offset) + 1
    }
}
