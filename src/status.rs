//! `iop status`: reads the snapshot of a running edge and shows it, once or again and again. It changes nothing there.

mod admin_url;
mod fetch;
mod render;
mod screen;
mod snapshot;
mod text;

use crate::arguments::Status;
use crate::failure::Failure;
pub(crate) use admin_url::AdminUrl;
use fetch::{FetchError, Reading, Source, fetch};
use iop_config::{EnvName, Secret};
use std::io::{self, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks where everything printed stays.
const PRINT_INTERVAL: Duration = Duration::from_secs(2);

/// What a reading becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The snapshot itself, a line each.
    Json,
    /// For people, one below the other.
    Print,
    /// For people, always in the same place.
    Redraw,
}

pub(crate) async fn run(options: Status) -> Result<ExitCode, Failure> {
    let key = options.key_env.map(key).transpose()?;
    let source = Source { admin: options.admin, key };
    let form = match (options.json, options.watch) {
        (true, _) => Form::Json,
        (false, true) if screen::can_redraw() => Form::Redraw,
        (false, _) => Form::Print,
    };
    let shown = if options.watch {
        watch(&source, form).await
    } else {
        let reading = fetch(&source).await.map_err(Failure::other)?;
        write(&view(&reading, form, &source))
    };
    match shown {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Who read it has seen enough, such as `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::other(format!("cannot write to standard output: {error}"))),
    }
}

fn key(name: EnvName) -> Result<(EnvName, Secret), Failure> {
    let wrong =
        |state: &str| Failure::config(format!("--key-env: the environment variable `{name}` {state}"));
    let value = std::env::var_os(name.as_str()).ok_or_else(|| wrong("is not set"))?;
    let secret = value.to_str().and_then(|value| value.parse().ok());
    let secret = secret.ok_or_else(|| wrong(&format!("does not hold a key: {}", Secret::EXPECTED)))?;
    Ok((name, secret))
}

/// Looks until Ctrl-C.
async fn watch(source: &Source, form: Form) -> io::Result<()> {
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let interval = if form == Form::Redraw { REDRAW_INTERVAL } else { PRINT_INTERVAL };
    let mut display = Display { form, said: None, last_read: None };
    if form == Form::Redraw {
        write(screen::CLEAR)?;
    }
    loop {
        let look = async {
            display.show(fetch(source).await, source)?;
            tokio::time::sleep(interval).await;
            io::Result::Ok(())
        };
        tokio::select! {
            biased;
            interrupted = &mut interrupt => return interrupted,
            looked = look => looked?,
        }
    }
}

/// What has been shown so far.
struct Display {
    form: Form,
    /// The failure that was said last; `None` after a reading.
    said: Option<String>,
    last_read: Option<Instant>,
}

impl Display {
    fn show(&mut self, reading: Result<Reading, FetchError>, source: &Source) -> io::Result<()> {
        match reading {
            Ok(reading) => {
                self.said = None;
                let is_first = self.last_read.replace(Instant::now()).is_none();
                let view = view(&reading, self.form, source);
                match self.form {
                    Form::Redraw => write(&screen::frame(&view, screen::size())),
                    Form::Print if !is_first => write(&format!("\n{view}")),
                    Form::Print | Form::Json => write(&view),
                }
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn fail(&mut self, error: &str) -> io::Result<()> {
        if self.form == Form::Redraw {
            let last = self.last_read.map(|read| text::duration(millis(read.elapsed())));
            let last = last.map(|ago| format!("; the last answer came {ago} ago")).unwrap_or_default();
            let view = render::message(&format!("iop: {error}; looking again{last}"));
            return write(&screen::frame(&view, screen::size()));
        }
        // Once, however long it lasts.
        if self.said.as_deref() != Some(error) {
            eprintln!("iop: {error}; looking again");
            self.said = Some(error.to_owned());
        }
        Ok(())
    }
}

fn view(reading: &Reading, form: Form, source: &Source) -> String {
    match form {
        Form::Json => text::one_line(&reading.json) + "\n",
        Form::Print | Form::Redraw => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            render::page(&reading.snapshot, &source.admin.to_string(), now)
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
