//! Tree of configuration values with the place of each: the file first, then variables and flags over it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::places::{Place, Places};
use super::problem::ConfigError;

/// Largest nesting depth of a file.
const DEPTH_MAX: usize = 32;

/// Largest number of reported syntax errors.
const SYNTAX_ERRORS_MAX: usize = 20;

/// Values and their places.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) value: Value,
    pub(super) places: Places,
    /// Keys that were removed because they are invalid.
    removed: BTreeSet<Vec<String>>,
    /// Whether the whole file is TOML, so that an absent key is not set.
    pub(super) is_whole: bool,
    /// Remaining readings of variables, whose text has no type.
    raw: BTreeMap<Vec<String>, Vec<Value>>,
}

impl Tree {
    /// Parses the text of a file as far as it is TOML, and returns the syntax errors.
    pub(super) fn of_file(file: &str, text: &str) -> (Self, Vec<ConfigError>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let lines = Lines::of(text);
        let mut tree = Self {
            value: Value::Null,
            places: Places::of_file(file),
            removed: BTreeSet::new(),
            is_whole: errors.is_empty(),
            raw: BTreeMap::new(),
        };
        tree.value = tree.table(table.get_ref(), &lines, &mut Vec::new());
        let mut problems: Vec<ConfigError> = Vec::new();
        for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
            let line = error.span().map_or(1, |span| lines.at(span.start));
            let place = tree.places.line(line);
            // One mistake often causes several errors on its line.
            if problems.iter().all(|known| known.place != place) {
                let problem = format!("{}; the file must be TOML", error.message());
                problems.push(ConfigError { place, key: String::new(), problem });
            }
        }
        (tree, problems)
    }

    fn table(&mut self, table: &DeTable<'_>, lines: &Lines, path: &mut Vec<String>) -> Value {
        let mut members = Map::new();
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.places.insert(path, Place::Line(lines.at(key.span().start)));
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
                    self.places.insert(path, Place::Line(lines.at(item.span().start)));
                    read.push(self.read(item, lines, path));
                    path.pop();
                }
                Value::Array(read)
            }
            scalar => scalar_value(scalar),
        }
    }

    /// Overrides a key with the value of a variable or flag.
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
            self.places.insert_new(&real, &place);
            node = members.entry(key).or_insert(Value::Null);
            if depth + 1 == path.len() {
                let mut readings = readings(text);
                *node = readings.pop().unwrap_or_default();
                self.places.insert(&real, place.clone());
                self.raw.insert(real.clone(), readings);
            }
        }
    }

    /// Replaces a value by the next reading of its variable; returns false when none is left.
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

    /// Removes a value; returns whether it existed.
    pub(super) fn remove(&mut self, path: &[String]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let existed = match self.node(parents) {
            Some(Value::Object(members)) => members.remove(last).is_some(),
            // A list without an item would be another list.
            Some(Value::Array(_)) => return self.remove(parents),
            _ => false,
        };
        if existed {
            self.removed.insert(path.to_vec());
        }
        existed
    }

    /// Returns whether a key is set, valid or not.
    pub(super) fn is_present(&self, path: &[&str]) -> bool {
        let found = path.iter().try_fold(&self.value, |node, part| node.get(*part));
        found.is_some() || self.was_removed(path)
    }

    /// Returns whether a key, or a table around it, was removed because it is invalid.
    pub(super) fn was_removed(&self, path: &[&str]) -> bool {
        self.removed.iter().any(|removed| path.len() >= removed.len() && overlaps(removed, path))
    }

    /// Returns whether nothing in a key was removed, so that absent parts are not set.
    pub(super) fn is_intact(&self, path: &[&str]) -> bool {
        self.is_whole && !self.removed.iter().any(|removed| overlaps(removed, path))
    }
}

/// Returns whether one of two paths is a prefix of the other.
fn overlaps(one: &[String], other: &[&str]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// Returns the key that a part of a variable name stands for: the same, or equal apart from case and from
/// characters that a variable name cannot have.
fn existing(members: &Map<String, Value>, part: &str) -> String {
    let folded = |text: &str| -> String {
        let letter = |c: char| if c.is_alphanumeric() { c } else { '_' };
        text.chars().map(letter).flat_map(char::to_lowercase).collect()
    };
    let found = members.keys().find(|key| *key == part);
    let found = found.or_else(|| members.keys().find(|key| folded(key) == folded(part)));
    found.cloned().unwrap_or_else(|| part.to_lowercase())
}

/// Returns the possible values of a text, most likely last: a list, a string, a number or a boolean.
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

/// Offsets of the line ends of a text, for fast line lookup.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let bytes = text.bytes().enumerate();
        Self(bytes.filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset).collect())
    }

    /// Returns the line of an offset, from 1.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|end| *end < offset) + 1
    }
}
