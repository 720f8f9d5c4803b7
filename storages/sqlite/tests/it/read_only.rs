//! Read-only files and folders. Permissions do not apply to the superuser, so the tests run again as a user without
//! rights.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use punctual::ErrorKind;
use punctual_sqlite::SqliteStorage;

use crate::fixture::Fixture;

const UNPRIVILEGED_UID: u32 = 65_534;
const PATH: &str = "PUNCTUAL_TEST_READ_ONLY";

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns whether permissions of files do not apply to this process.
fn is_superuser(path: &Path) -> bool {
    fs::OpenOptions::new().append(true).open(path).is_ok()
}

#[tokio::test]
async fn a_file_in_a_folder_without_rights_is_refused_with_what_to_do() {
    let f = Fixture::new();
    f.open().await.close().await.unwrap();
    allow(&f.path(), 0o444);
    allow(f.folder.path(), 0o555);
    if is_superuser(&f.path()) {
        let program = f.folder.path().join("tests");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        allow(&program, 0o755);
        let run = Command::new(&program)
            .args(["--ignored", "--exact", "read_only::as_unprivileged_user"])
            .env(PATH, f.path())
            .uid(UNPRIVILEGED_UID)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && output.contains("1 passed"), "{output}");
    } else {
        check(&f.path()).await;
    }
    allow(f.folder.path(), 0o755);
}

#[tokio::test]
#[ignore = "run by the test above, as another user"]
async fn as_unprivileged_user() {
    let path = std::env::var(PATH).expect("set by the test above");
    check(Path::new(&path)).await;
}

async fn check(path: &Path) {
    let error = SqliteStorage::open(path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("writable"), "{error}");
    let error = SqliteStorage::open(path.with_file_name("new.db")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("create files in its folder"), "{error}");
}
