//! A group of processes: a program and everything it started, ended together. Only Unix has such groups; elsewhere the
//! program alone is ended, by dropping its handle (`kill_on_drop`), and what it started is left running.

pub(super) use system::Group;

#[cfg(unix)]
mod system {
    use rustix::process::{Pid, Signal, kill_process_group};

    /// The group that a program leads. Dropped before it was let go, it is killed, so that no run outlives
    /// the attempt that started it.
    #[derive(Debug)]
    pub(in super::super) struct Group {
        leader: Option<Pid>,
    }

    impl Group {
        /// Makes a program the leader of a group of its own when it is started.
        pub(in super::super) fn prepare(command: &mut tokio::process::Command) {
            command.process_group(0);
        }

        /// The group led by a process that was started in a group of its own.
        pub(in super::super) fn led_by(id: Option<u32>) -> Self {
            let id = id.and_then(|id| i32::try_from(id).ok());
            Self { leader: id.and_then(Pid::from_raw) }
        }

        /// Asks all of it to end.
        pub(in super::super) fn ask(&self) {
            self.signal(Signal::TERM);
        }

        /// Ends all of it.
        pub(in super::super) fn kill(&mut self) {
            self.signal(Signal::KILL);
            self.leader = None;
        }

        /// It ended by itself; what it left running on purpose is left alone.
        pub(in super::super) fn let_go(mut self) {
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
        pub(in super::super) fn ask(&self) {}

        /// Does nothing: the program is ended when its handle is dropped.
        pub(in super::super) fn kill(&mut self) {}

        /// Does nothing.
        pub(in super::super) fn let_go(self) {}
    }
}
