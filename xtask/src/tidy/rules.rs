//! Rules: the list of all rules, and running them.

use super::{
    Finding, Source, decisions, file_names, headers, layers, length, links, machine_paths,
    one_place, plain_words, public_names, returned_flags, script_lines, security_tests,
    test_filters, unfinished, vocabulary, walks,
};

/// Rules that need one file at a time.
const FILE_RULES: [fn(&Source) -> Vec<Finding>; 9] = [
    file_names::check,
    headers::check,
    machine_paths::check,
    one_place::check,
    plain_words::check,
    returned_flags::check,
    script_lines::check,
    unfinished::check,
    vocabulary::check,
];

/// Returns every finding. `exists` returns whether a path from the root exists.
pub(crate) fn findings(sources: &[Source], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = decisions::check(sources);
    findings.extend(layers::check(sources));
    findings.extend(public_names::check(sources));
    findings.extend(security_tests::check(sources));
    findings.extend(test_filters::check(sources));
    findings.extend(walks::check(sources));
    for source in sources {
        for rule in FILE_RULES {
            findings.extend(rule(source));
        }
        findings.extend(links::check(source, exists));
    }
    findings
}

/// Returns notes, which fail nothing.
pub(crate) fn notes(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter_map(length::note).collect()
}
