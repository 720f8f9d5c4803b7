//! Process group: a program and everything it started, ended together. Only on Unix; on other systems only the
//! program is ended, by dropping its handle (`kill_on_drop`), and processes it started keep running.

pub(super) use system::Group;

#[cfg(unix)]
mod system {
    use rustix::process::{Pid, Signal, kill_process_group};

    /// The process group of a program. Killed when dropped before `release`, so that no run outlives its attempt.
    #[derive(Debug)]
    pub(in super::super) struct Group {
        leader: Option<Pid>,
    }

    impl Group {
        /// Makes a command start in a process group of its own.
        pub(in super::super) fn prepare(command: &mut tokio::process::Command) {
            command.process_group(0);
        }

        /// Returns the group of a process that was started by a prepared command.
        pub(in super::super) fn led_by(id: Option<u32>) -> Self {
            let id = id.and_then(|id| i32::try_from(id).ok());
            Self { leader: id.and_then(Pid::from_raw) }
        }

        /// Sends SIGTERM to the group.
        pub(in super::super) fn terminate(&self) {
            self.signal(Signal::TERM);
        }

        /// Sends SIGKILL to the group.
        pub(in super::super) fn kill(&mut self) {
            self.signal(Signal::KILL);
            self.leader = None;
        }

        /// Releases the group of an ended program; processes it left running are not killed.
        pub(in super::super) fn release(mut self) {
            self.leader = None;
        }

        fn signal(&self, signal: Signal) {
            if let Some(leader) = self.leader {
                // Fails if the group has already ended.
                let _ = kill_process_group(leader, signal);
            }
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            self.kill();
        }
    }
}

#[cfg(not(unix))]
mod system {
    /// Stands in for a group where the system has none: does nothing.
    #[derive(Debug)]
    pub(in super::super) struct Group;

    #[allow(clippy::unused_self)] // the signatures are those of Unix
    impl Group {
        /// Changes nothing.
        pub(in super::super) fn prepare(_command: &mut tokio::process::Command) {}

        /// Returns the stand-in.
        pub(in super::super) fn led_by(_id: Option<u32>) -> Self {
            Self
        }

        /// Does nothing: there is no signal to send.
        pub(in super::super) fn terminate(&self) {}

        /// Does nothing: the program is ended when its handle is dropped.
        pub(in super::super) fn kill(&mut self) {}

        /// Does nothing.
        pub(in super::super) fn release(self) {}
    }
}
