//! A group of processes: a program and everything it started, ended together.

use rustix::process::{Pid, Signal, kill_process_group};

/// The group that a program leads. Dropped before it was let go, it is killed, so that no run outlives
/// the attempt that started it.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// The group led by a process that was started in a group of its own.
    pub(super) fn led_by(id: Option<u32>) -> Self {
        let id = id.and_then(|id| i32::try_from(id).ok());
        Self { leader: id.and_then(Pid::from_raw) }
    }

    /// Asks all of it to end.
    pub(super) fn ask(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends all of it.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.leader = None;
    }

    /// It ended by itself; what it left running on purpose is left alone.
    pub(super) fn let_go(mut self) {
        self.leader = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // A group that is gone already is what is wanted.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
