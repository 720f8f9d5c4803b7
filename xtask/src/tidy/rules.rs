//! The list of rules, and running all of them.

use super::{
    Finding, Source, decisions, file_names, headers, length, links, machine_paths, one_place,
    returned_flags, security_tests, test_filters, unfinished, vocabulary,
};

/// Rules that need one file at a time.
const FILE_RULES: [fn(&Source) -> Vec<Finding>; 7] = [
    file_names::check,
    headers::check,
    machine_paths::check,
    one_place::check,
    returned_flags::check,
    unfinished::check,
    vocabulary::check,
];

/// Everything that is broken. `exists` says whether a path from the root is there.
pub(crate) fn findings(sources: &[Source], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = decisions::check(sources);
    findings.extend(security_tests::check(sources));
    findings.extend(test_filters::check(sources));
    for source in sources {
        for rule in FILE_RULES {
            findings.extend(rule(source));
        }
        findings.extend(links::check(source, exists));
    }
    findings
}

/// What is worth a look and breaks nothing.
pub(crate) fn notes(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter_map(length::note).collect()
}
