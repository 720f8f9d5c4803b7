//! Returned flags: the bool of a comparison, used as a value and then returned, which some compilers lose.
//!
//! Rust 1.94.0 to 1.96.0 remove a comparison with a constant although its result is still used, when a function with the
//! result as its value is inlined into an `if` (<https://github.com/rust-lang/rust/issues/158206>). This rule reads text
//! and relies on the format of rustfmt: it finds the pattern where it is written out, not where a call hides the
//! comparison.

use super::source::has_word;
use super::{Finding, Source};

const INTEGERS: [&str; 12] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];
/// How the names of facts begin.
const FACTS: [&str; 6] = ["is_", "has_", "was_", "did_", "can_", "are_"];
const CAST: &str =
    "a bool is not cast to a number: rust-lang/rust#158206; write `if hit { i += 1 }`";
const RETURNED: &str = "a bool is used as a value and then returned: rust-lang/rust#158206; branch on it instead, as in `if hit { i += 1 }`";
/// Largest number of lines read below a binding, when its block does not end before.
const LINES_MAX: usize = 80;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_rust() || source.is_a_rule() {
        return Vec::new();
    }
    let lines: Vec<(usize, &str)> = source.code_lines().collect();
    let casts = lines.iter().filter(|(_, line)| has_cast(line));
    let mut findings: Vec<Finding> =
        casts.map(|(number, _)| source.finding(*number, CAST)).collect();
    let texts: Vec<&str> = lines.iter().map(|(_, line)| line.trim_end()).collect();
    let returned = (0..texts.len()).filter_map(|end| binding(&texts, end));
    findings.extend(returned.map(|at| source.finding(at + 1, RETURNED)));
    findings
}

/// Returns whether a comparison or a fact is cast to an integer.
fn has_cast(line: &str) -> bool {
    line.match_indices(" as ").any(|(at, marker)| {
        let after = &line[at + marker.len()..];
        let end = after.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(after.len());
        INTEGERS.contains(&&after[..end]) && is_bool(&line[..at])
    })
}

/// Returns whether the expression at the end of a text is a bool, as far as the text shows.
fn is_bool(text: &str) -> bool {
    let Some(inner) = text.strip_suffix(')') else {
        return is_fact(last_name(text));
    };
    let mut depth = 1_u32;
    let opened = inner.char_indices().rev().find(|(_, letter)| {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let Some((at, _)) = opened else { return false };
    let (before, inside) = (&inner[..at], &inner[at + 1..]);
    match last_name(before.trim_end_matches('!')) {
        "" => compares(inside),
        name => is_fact(name) || (name == "matches" && before.ends_with('!')),
    }
}

/// The line of `let name = a == b;`, when line `end` is `name` as the value of its block and the name is used between, for
/// anything but a branch.
fn binding(lines: &[&str], end: usize) -> Option<usize> {
    let name = lines[end].trim_start();
    let is_tail = lines.get(end + 1).is_some_and(|next| next.trim_start().starts_with('}'));
    if !is_tail || name.is_empty() || last_name(name) != name {
        return None;
    }
    let indent = &lines[end][..lines[end].len() - name.len()];
    let block = (0..end).rev().take(LINES_MAX);
    let mut block = block.take_while(|at| lines[*at].is_empty() || lines[*at].starts_with(indent));
    let start = block.find(|at| binds(&lines[*at][indent.len().min(lines[*at].len())..], name))?;
    let statement_end = (start..end).find(|at| lines[*at].ends_with(';'))?;
    let statement = lines[start..=statement_end].concat();
    let (_, value) = statement.split_once('=')?;
    let chooses = ["if ", "match "].iter().any(|word| value.trim_start().starts_with(word));
    let is_used = lines[statement_end + 1..end].iter().any(|line| {
        let line = line.replace(&format!("if {name} "), "").replace(&format!("if !{name} "), "");
        has_word(&line, name)
    });
    let is_flag = is_fact(name) || compares(value) || value.contains("matches!(");
    (is_used && is_flag && !chooses && !is_closure(value)).then_some(start)
}

fn binds(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix("let ").and_then(|rest| rest.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with(" =") || rest.starts_with(": bool ="))
}

fn compares(text: &str) -> bool {
    text.contains("==") || text.contains("!=")
}

fn is_closure(value: &str) -> bool {
    value.trim_start().starts_with(['|', '{']) || value.trim_start().starts_with("move |")
}

fn is_fact(name: &str) -> bool {
    FACTS.iter().any(|fact| name.starts_with(fact))
}

/// The name that a text ends with; empty when it ends with something else.
fn last_name(text: &str) -> &str {
    let joins = |letter: char| letter.is_alphanumeric() || letter == '_';
    let start = text.trim_end_matches(joins).len();
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        check(&Source::new("core/src/a.rs", text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_bool_that_becomes_a_number_by_a_cast_is_found() {
        for text in [
            "count += (a == b) as usize;",
            "count += (f(a) != 3) as u32;",
            "count += is_hit as u64;",
            "count += self.is_hit() as i64;",
            "count += matches!(a, Some(_)) as u8;",
        ] {
            assert_eq!(lines(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_number_that_is_cast_is_not() {
        for text in [
            "let a = rows.len() as u64;",
            "let a = (b - c.len()) as u64;",
            "let a = all.filter(|one| one.state == state).count() as u64;",
            "if held < some.len() as u64 {",
            "// count += (a == b) as usize",
            "let a = (is_hit, b.len() as u64);",
            "use a as b;",
        ] {
            assert_eq!(lines(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_comparison_that_is_used_and_then_returned_is_found() {
        for (value, used) in [
            ("self.peek() == expected", "self.at += u32::from(hit);"),
            ("kind != Kind::A", "self.flag = hit;"),
            ("matches!(kind, Kind::A)", "self.flags.push(hit);"),
        ] {
            let text = format!("fn f() {{\n    let hit = {value};\n    {used}\n    hit\n}}\n");
            let found = lines(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].starts_with("core/src/a.rs:2: "), "{found:?}");
        }
        let fact = "fn f() {\n    let is_hit =\n        self.test();\n    self.n += u8::from(is_hit);\n    is_hit\n}\n";
        assert_eq!(lines(fact).len(), 1);
    }

    #[test]
    fn a_branch_another_type_and_another_block_are_not() {
        for text in [
            "fn f() {\n    let hit = a == 1;\n    if hit {\n        i += 1;\n    }\n    hit\n}\n",
            "fn f() {\n    let hit = a == 1;\n    hit\n}\n",
            "fn f() {\n    let n = if a == 1 { 2 } else { 3 };\n    use_of(n);\n    n\n}\n",
            "fn f() {\n    let n = |b| b == 1;\n    use_of(n);\n    n\n}\n",
            "fn f() {\n    let n = count();\n    use_of(n);\n    n\n}\n",
            "fn f() {\n    let hit = a == 1;\n    g(hit);\n}\nfn g(hit: bool) {\n    hit\n}\n",
        ] {
            assert_eq!(lines(text), [""; 0], "{text}");
        }
    }
}
