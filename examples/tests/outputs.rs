//! Every example is run, and prints what its last lines say it prints.
#![allow(clippy::unwrap_used)] // a set-up that fails is a test that fails

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

/// Those that have a binary of their own and run until they are asked to stop.
const PROGRAMS: [(&str, &str); 2] =
    [("hello", env!("CARGO_BIN_EXE_hello")), ("cron", env!("CARGO_BIN_EXE_cron"))];
const ALL: &str = env!("CARGO_BIN_EXE_punctual-examples");
/// How many run at once.
const TOGETHER: usize = 4;

/// The names of all files but the one that leads to them.
fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "main");
    names.sort();
    names
}

/// What a file says that it prints.
fn expected(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(format!("{name}.rs"));
    let text = fs::read_to_string(path).unwrap();
    let (_, lines) = text.split_once("\n// Output:\n").unwrap_or_else(|| {
        panic!("{name}.rs does not end with a block `// Output:`");
    });
    let bare = |line: &str| line.strip_prefix("// ").unwrap_or_default().to_owned();
    lines.lines().map(|line| bare(line) + "\n").collect()
}

fn complaint(name: &str, output: &Output) -> Option<String> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = expected(name);
    if output.status.success() && printed == expected {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Some(format!("{name}: {}\nexpected:\n{expected}\nprinted:\n{printed}\n{said}", output.status))
}

#[test]
fn every_example_prints_what_it_says() {
    let names: Vec<String> = names()
        .into_iter()
        .filter(|name| PROGRAMS.iter().all(|(program, _)| program != name))
        .collect();
    assert!(names.len() > 30, "only {} examples", names.len());
    let (waiting, complaints) = (Mutex::new(names.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some(name) = next else { break };
                    let output = Command::new(ALL).arg(&name).output().unwrap();
                    complaints.lock().unwrap().extend(complaint(&name, &output));
                }
            });
        }
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Waits until a process hears Ctrl-C itself; before that it would be ended by it.
#[cfg(target_os = "linux")]
fn listens(process: u32) {
    const INTERRUPT: u64 = 1 << 1;
    for _ in 0..10_000_000 {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        if u64::from_str_radix(caught, 16).unwrap() & INTERRUPT != 0 {
            return;
        }
        thread::yield_now();
    }
    panic!("the process does not listen to Ctrl-C");
}

// The programs of the README, run as they are: they work, and end well when they are asked to.
// spec: U-48
#[cfg(target_os = "linux")]
#[test]
fn the_programs_of_the_readme_work_until_they_are_asked_to_stop() {
    for (name, path) in PROGRAMS {
        let mut child = Command::new(path).stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut printed).unwrap();
        listens(child.id());
        let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        for line in lines.lines() {
            printed.push_str(&line.unwrap());
            printed.push('\n');
        }
        assert!(child.wait().unwrap().success(), "{name}");
        assert_eq!(printed, expected(name), "{name}");
    }
}

#[test]
fn an_example_that_does_not_exist_is_answered_with_the_list() {
    let output = Command::new(ALL).arg("nonsense").output().unwrap();
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in names().iter().filter(|name| PROGRAMS.iter().all(|(program, _)| program != name)) {
        assert!(printed.contains(&format!("  {name}\n")), "{name} is missing in\n{printed}");
    }
}

#[test]
fn every_example_says_what_it_is_for_and_the_guide_lists_it() {
    let guide = include_str!("../README.md");
    for name in names() {
        let line = format!("[`{name}`](src/{name}.rs)");
        assert!(guide.contains(&line), "examples/README.md does not list {line}");
    }
}
