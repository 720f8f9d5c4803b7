//! Expected output: runs every example and compares what it prints with its last lines.
#![allow(clippy::unwrap_used)] // a set-up that fails is a test that fails

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

/// The examples that have a binary of their own and run until Ctrl-C.
const PROGRAMS: [(&str, &str); 2] =
    [("hello", env!("CARGO_BIN_EXE_hello")), ("cron", env!("CARGO_BIN_EXE_cron"))];
const EXAMPLES: &str = env!("CARGO_BIN_EXE_punctual-examples");
/// Number of examples that run in parallel.
const PARALLEL: usize = 4;

/// Returns the names of all files except `main.rs`.
fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "main");
    names.sort();
    names
}

/// Returns the expected output of an example.
fn expected(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(format!("{name}.rs"));
    let text = fs::read_to_string(path).unwrap();
    let (_, lines) = text.split_once("\n// Output:\n").unwrap_or_else(|| {
        panic!("{name}.rs does not end with a block `// Output:`");
    });
    let uncomment = |line: &str| line.strip_prefix("// ").unwrap_or_default().to_owned();
    lines.lines().map(|line| uncomment(line) + "\n").collect()
}

fn mismatch(name: &str, output: &Output) -> Option<String> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = expected(name);
    if output.status.success() && printed == expected {
        return None;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Some(format!("{name}: {}\nexpected:\n{expected}\nprinted:\n{printed}\n{errors}", output.status))
}

#[test]
fn every_example_prints_its_expected_output() {
    let names: Vec<String> = names()
        .into_iter()
        .filter(|name| PROGRAMS.iter().all(|(program, _)| program != name))
        .collect();
    assert!(names.len() > 30, "only {} examples", names.len());
    let (waiting, mismatches) = (Mutex::new(names.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some(name) = next else { break };
                    let output = Command::new(EXAMPLES).arg(&name).output().unwrap();
                    mismatches.lock().unwrap().extend(mismatch(&name, &output));
                }
            });
        }
    });
    let mismatches = mismatches.into_inner().unwrap();
    assert!(mismatches.is_empty(), "\n{}", mismatches.join("\n"));
}

/// Waits until a process handles Ctrl-C; before that the signal would kill it.
#[cfg(target_os = "linux")]
fn wait_for_signal_handler(process: u32) {
    const INTERRUPT: u64 = 1 << 1;
    for _ in 0..10_000_000 {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        if u64::from_str_radix(caught, 16).unwrap() & INTERRUPT != 0 {
            return;
        }
        thread::yield_now();
    }
    panic!("the process does not handle Ctrl-C");
}

// The programs of the README, run unchanged: they work, and end cleanly on Ctrl-C.
// spec: U-48
#[cfg(target_os = "linux")]
#[test]
fn the_programs_of_the_readme_work_until_ctrl_c() {
    for (name, path) in PROGRAMS {
        let mut child = Command::new(path).stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut printed).unwrap();
        wait_for_signal_handler(child.id());
        let signalled =
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        for line in lines.lines() {
            printed.push_str(&line.unwrap());
            printed.push('\n');
        }
        assert!(child.wait().unwrap().success(), "{name}");
        assert_eq!(printed, expected(name), "{name}");
    }
}

#[test]
fn an_unknown_example_prints_the_list() {
    let output = Command::new(EXAMPLES).arg("nonsense").output().unwrap();
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in names().iter().filter(|name| PROGRAMS.iter().all(|(program, _)| program != name)) {
        assert!(printed.contains(&format!("  {name}\n")), "{name} is missing in\n{printed}");
    }
}

#[test]
fn the_readme_lists_every_example() {
    let guide = include_str!("../README.md");
    for name in names() {
        let line = format!("[`{name}`](src/{name}.rs)");
        assert!(guide.contains(&line), "examples/README.md does not list {line}");
    }
}
