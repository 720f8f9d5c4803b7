//! Tidy: rules that can be checked mechanically, each a pure function over paths and texts.
//!
//! A rule returns findings and never reads the disk, so each has a test in its own file that it fails on a bad
//! sample. This folder is exempt from the rules about refused words, because it has to contain them.

mod decisions;
mod dependencies;
mod file_names;
mod headers;
mod layers;
mod length;
mod links;
mod machine_paths;
mod one_place;
mod plain_words;
mod public_names;
mod returned_flags;
mod rules;
mod script_lines;
mod security_tests;
mod source;
mod test_filters;
mod unfinished;
mod vocabulary;
mod walks;

pub(crate) use dependencies::dependency_rules;
pub(crate) use rules::{findings, notes};
pub(crate) use source::{Finding, Source, has_word, is_test_attribute, report};
