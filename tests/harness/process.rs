//! Runs a program as a user would: arguments, files, signals, output lines and exit codes.
//! Whatever it printed is shown when the test fails, and it never outlives its handle.

mod lines;

use crate::deadline::wait_until;
use lines::Lines;
use rustix::process::{Pid, kill_process};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub use rustix::process::Signal;

/// A program that is yet to be run. Its standard input is empty.
#[derive(Debug)]
pub struct Program {
    name: String,
    command: Command,
}

impl Program {
    /// The program at `path`; its file name names it in messages.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self { name, command: Command::new(path) }
    }

    /// Another name in messages, where one program runs several times.
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the directory it runs in.
    pub fn directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(mut self) -> Process {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match self.command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("{} did not start ({error}): {:?}", self.name, self.command),
        };
        let stdout = Lines::read(child.stdout.take().expect("stdout is piped"));
        let stderr = Lines::read(child.stderr.take().expect("stderr is piped"));
        Process { name: self.name, child, stdout, stderr }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it cannot be started or still runs after `deadline`.
    pub async fn run(self, deadline: Duration) -> Finished {
        let mut process = self.start();
        let status = process.wait_for_exit(deadline).await;
        Finished { status, stdout: process.stdout(), stderr: process.stderr() }
    }
}

/// What a program left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Lines of its standard output.
    pub stdout: Vec<String>,
    /// Lines of its standard error.
    pub stderr: Vec<String>,
}

impl Finished {
    /// Passes when the exit code is 0.
    ///
    /// # Panics
    /// With all output when it is not.
    pub fn expect_success(self, what: &str) -> Self {
        let (status, out, err) = (self.status, self.stdout.join("\n"), self.stderr.join("\n"));
        assert!(status.success(), "{what}: {status}\n--- stdout\n{out}\n--- stderr\n{err}");
        self
    }
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lines of standard output so far.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.copy()
    }

    /// Lines of standard error so far.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.copy()
    }

    /// The first line of standard output that starts with `prefix`, waiting for it if need be.
    ///
    /// # Panics
    /// When it has not come after `deadline`, or at once when the program ends without it.
    pub async fn wait_for_line(&mut self, prefix: &str, deadline: Duration) -> String {
        let what = format!("{} to print a line starting with {prefix:?}", self.name);
        let (child, stdout, stderr, name) = (&mut self.child, &self.stdout, &self.stderr, &self.name);
        wait_until(&what, deadline, || {
            // Asked before the output is looked at, so that a last line is not missed.
            let ended = child.try_wait().expect("a child can be asked for its status");
            let whole = ended.is_some() && stdout.ended();
            let lines = stdout.copy();
            match lines.iter().find(|line| line.starts_with(prefix)) {
                Some(line) => Ok(line.clone()),
                None if whole => {
                    let status = ended.expect("an ended child has a status");
                    panic!("{name} ended ({status}) without {prefix:?}: {lines:#?} {:#?}", stderr.copy())
                }
                None => Err((lines, stderr.copy())),
            }
        })
        .await
    }

    /// The values of its `ready key=value …` line, waiting for it if need be.
    ///
    /// # Panics
    /// As [`Process::wait_for_line`].
    pub async fn wait_for_ready(&mut self, deadline: Duration) -> BTreeMap<String, String> {
        ready_values(&self.wait_for_line("ready ", deadline).await)
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the program has ended already.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).expect("a child has an id");
        if let Err(error) = kill_process(id, signal) {
            panic!("{}: {signal:?} not sent: {error}", self.name);
        }
    }

    /// Waits for its end and for the end of its output.
    ///
    /// # Panics
    /// When it still runs after `deadline`; the message shows its output.
    pub async fn wait_for_exit(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("{} to end", self.name);
        let (child, stdout, stderr) = (&mut self.child, &self.stdout, &self.stderr);
        wait_until(&what, deadline, || {
            let status = child.try_wait().expect("a child can be asked for its status");
            match status {
                Some(status) if stdout.ended() && stderr.ended() => Ok(status),
                _ => Err((status, stdout.copy(), stderr.copy())),
            }
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
        if std::thread::panicking() {
            let (out, err) = (self.stdout().join("\n"), self.stderr().join("\n"));
            eprintln!("--- {} stdout\n{out}\n--- {} stderr\n{err}\n---", self.name, self.name);
        }
    }
}

/// Reads `ready key=value key=value` into a map.
///
/// # Panics
/// When a word after the first is no `key=value`.
pub fn ready_values(line: &str) -> BTreeMap<String, String> {
    let pair = |word: &str| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => panic!("no key=value in {line:?}: {word:?}"),
    };
    line.split_whitespace().skip(1).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Program {
        Program::new("/bin/sh").args(["-c", script])
    }

    #[test]
    fn a_ready_line_is_read_into_its_values() {
        let values = ready_values("ready http=127.0.0.1:8080 quic=[::]:7443");
        assert_eq!(values["http"], "127.0.0.1:8080");
        assert_eq!(values["quic"], "[::]:7443");
    }

    #[tokio::test]
    async fn the_line_waited_for_is_found_and_the_exit_code_kept() {
        let mut process = shell("echo first; echo ready a=1; echo oops >&2; exit 3").start();
        assert_eq!(process.wait_for_ready(DEADLINE).await["a"], "1");
        assert_eq!(process.wait_for_exit(DEADLINE).await.code(), Some(3));
        assert_eq!(process.stdout(), ["first", "ready a=1"]);
        assert_eq!(process.stderr(), ["oops"]);
    }

    #[tokio::test]
    async fn a_line_that_never_comes_fails_at_the_end_of_the_program_and_shows_its_output() {
        let waiting = tokio::spawn(async {
            let mut process = shell("echo something else; echo why >&2").start();
            process.wait_for_line("ready", Duration::from_secs(60)).await;
        });
        let failure = waiting.await.expect_err("there is no such line").into_panic();
        let message = failure.downcast::<String>().expect("a message");
        assert!(message.contains("something else"), "{message}");
    }

    #[tokio::test]
    async fn signals_reach_the_program() {
        let mut polite =
            shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done").start();
        polite.wait_for_line("ready", DEADLINE).await;
        polite.signal(Signal::TERM);
        assert!(polite.wait_for_exit(DEADLINE).await.success());
        assert_eq!(polite.stdout(), ["ready", "bye"]);

        let mut stopped = shell("echo ready; exec sleep 600").start();
        stopped.wait_for_line("ready", DEADLINE).await;
        stopped.signal(Signal::STOP);
        stopped.signal(Signal::KILL);
        assert_eq!(stopped.wait_for_exit(DEADLINE).await.signal(), Some(9));
    }

    #[tokio::test]
    async fn a_dropped_process_is_gone() {
        let mut process = shell("echo ready; exec sleep 600").start();
        process.wait_for_line("ready", DEADLINE).await;
        let id = Pid::from_raw(process.id().cast_signed()).expect("a child has an id");
        drop(process);
        assert!(rustix::process::test_kill_process(id).is_err(), "the process should be gone");
    }
}
