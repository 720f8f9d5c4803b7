//! Process of the shipped program: found, started, polled until ready, measured from outside, and stopped.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::client::{Client, get};

/// Environment variable with the path of the program; `cargo xtask bench server` sets it.
const PATH_VARIABLE: &str = "PUNCTUAL_BINARY";
/// Longest time to become ready.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two requests of `/health/ready`.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Returns the path of the program, or the reason why it cannot be measured.
pub(super) fn binary() -> Result<PathBuf, String> {
    let named = std::env::var_os(PATH_VARIABLE).map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("punctual"));
    named.or_else(beside).filter(|path| path.is_file()).ok_or_else(|| {
        format!("{PATH_VARIABLE} names no program and there is none beside this one; `cargo xtask bench server` builds it")
    })
}

/// Running program; killed when dropped.
pub(super) struct Program {
    child: Child,
    pub(super) address: SocketAddr,
    /// Time from start to ready, in milliseconds.
    pub(super) ready_ms: f64,
}

impl Program {
    /// Starts `punctual serve` in a folder with further arguments, and waits until it is ready.
    pub(super) async fn start(binary: &Path, folder: &Path, arguments: &[&str]) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let began = Instant::now();
        let child = Command::new(binary)
            .arg("serve")
            .args(arguments)
            .args(["--listen", &address.to_string()])
            .current_dir(folder)
            .env("PUNCTUAL__LOG__LEVEL", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut program = Self { child, address, ready_ms: 0.0 };
        while !program.is_ready().await {
            let status = program.child.try_wait()?;
            anyhow::ensure!(status.is_none(), "the program ended before it was ready");
            anyhow::ensure!(
                began.elapsed() < TIMEOUT,
                "the program is not ready within {TIMEOUT:?}"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        program.ready_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok(program)
    }

    async fn is_ready(&self) -> bool {
        let Ok(mut client) = Client::connect(self.address).await else { return false };
        matches!(client.send(&get("/health/ready")).await, Ok((200, _)))
    }

    /// Returns the processor time used so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let mut nanoseconds = 0.0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let running = text.split_whitespace().next().context("schedstat is empty")?;
            nanoseconds += running.parse::<f64>()?;
        }
        Ok(nanoseconds / 1e9)
    }

    /// Returns the resident memory in megabytes.
    pub(super) fn resident_mb(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.context("no VmRSS")?.trim().trim_end_matches(" kB").parse::<f64>()?;
        Ok(kilobytes * 1_024.0 / 1e6)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its data is deleted with its folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
