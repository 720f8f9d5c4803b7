//! `punctual import crontab`, `completions` and `man` as a person runs them.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const CRONTAB: &str = "\
SHELL=/bin/bash
PATH=/usr/bin:/bin
MAILTO=ops@example.com

# Say hello to everybody
0 9 * * 1-5 echo 'hello there' >> /tmp/hello
@hourly /opt/shop/rates.sh
0 4 1,15 * 5 /opt/shop/backup --all
@reboot /opt/shop/start
";

fn punctual(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_crontab_becomes_a_configuration_that_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("tab"), CRONTAB).unwrap();
    let args = ["import", "crontab", "tab", "--zone", "Europe/Warsaw", "--output", "punctual.toml"];
    let output = punctual(folder, &args);
    assert_eq!(
        text(&output.stderr),
        "\
note: line 3: MAILTO: nothing is mailed; output stands in the log of each execution, and a webhook can tell of failures
note: line 8: either day field is enough, so it became two jobs that share no day
Converted 3 of 4 lines.
not converted: line 9: @reboot /opt/shop/start: @reboot has no time; let the service manager start it, or call it from a unit
error: 1 line could not be converted
hint: they stand as comments in the configuration; do those by hand
"
    );
    assert_eq!(output.status.code(), Some(1));
    let made = std::fs::read_to_string(folder.join("punctual.toml")).unwrap();
    assert!(made.contains("# Not converted: line 9: @reboot"), "{made}");
    assert!(made.contains("cron = \"0 4 2-14,16-31 * 5\""), "{made}");
    let misfire = "misfire = { policy = \"skip_to_next\", threshold = \"10s\" }";
    assert!(made.contains(misfire), "what was missed is not made up for: {made}");
    // Finding P9 of the newcomer's review: a program that was cut off was started again.
    assert_eq!(made.matches("retry = 0\nwhen_interrupted = \"lost\"\n").count(), 4, "{made}");
    let checked = punctual(folder, &["config", "check"]);
    assert!(checked.status.success(), "{}{made}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("jobs: 4"));
    // Finding P16 of the newcomer's review: what the import itself writes is meant as it is.
    assert_eq!(text(&checked.stderr), "");
    assert_eq!(punctual(folder, &args).status.code(), Some(1), "a file that is there stays");
    assert_eq!(punctual(folder, &["import", "crontab", "none"]).status.code(), Some(3));
}

#[test]
fn completions_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = punctual(folder.path(), &["completions", shell]);
        assert!(output.status.success(), "{shell}");
        assert!(text(&output.stdout).contains("backfill"), "{shell}");
    }
    assert_eq!(punctual(folder.path(), &["completions", "sh5"]).status.code(), Some(2));
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let output = punctual(folder.path(), &["man", "pages"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in ["punctual", "punctual-jobs", "punctual-jobs-backfill", "punctual-import-crontab"] {
        let page = std::fs::read_to_string(folder.path().join(format!("pages/{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page:.200}");
    }
    let first = text(&punctual(folder.path(), &["man"]).stdout);
    assert!(first.contains("Exit codes"), "the codes stand in the manual");
}
