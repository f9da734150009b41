//! Putting files in place so that a reader sees the old file or the new one, whole, and a power cut changes nothing
//! about that. Files are made with mode 0600, folders with 0700. What is in the files is not this module's concern.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use crate::random;
use crate::show::quoted;

/// Longest wait for a file that another process is changing: each holds it for some milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two looks whether it is free.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Why files were not put in place.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file that may not be overwritten is there.
    #[error(
        "{path}: is there already and is not overwritten: choose another folder, or move the old files away"
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The same files are being made by another process, or one was interrupted while it made them.
    #[error(
        "{path}: another `iop certs init` is at work in this folder, or one was interrupted: if none is running, remove this file and what that run left beside it"
    )]
    UnderWay {
        /// The file that marks the work.
        path: PathBuf,
    },
    /// Other users may put files into the folder.
    #[error("{path}: other users may write in this folder (mode {mode:04o}): run `chmod 700 {}` or choose another", quoted(.path))]
    OpenFolder {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another process changes the file all the time.
    #[error("{path}: another process is changing this file and does not finish: try again when it has")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path}: cannot {action}: {reason}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        reason: io::Error,
    },
}

/// Removes what it knows of when dropped, so that every early return leaves the folder as it was.
#[derive(Default)]
struct Undo {
    made: Vec<PathBuf>,
}

impl Undo {
    fn keep_all(mut self) {
        self.made.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for path in &self.made {
            // The failure that led here is the one worth reporting.
            let _ = fs::remove_file(path);
        }
    }
}

/// Puts a file in place, over an older one or not. Tells whether there was an older one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<bool, StoreError> {
    let replaced = exists(path)?;
    write_over(path, text)?;
    sync_folder(folder_of(path))?;
    Ok(replaced)
}

/// Whoever holds it is the only one who changes the file; the system lets go of it when its process ends.
pub(crate) struct Lock {
    _file: File,
}

/// Waits for the turn to change a file. The lock is a hidden file beside it, because the file itself is replaced.
pub(crate) fn lock(path: &Path) -> Result<Lock, StoreError> {
    let beside = beside(path, ".lock");
    let file = open_lock(&beside).map_err(|reason| failed(&beside, "be created", reason))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIMEOUT => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(reason)) => return Err(failed(&beside, "be locked", reason)),
        }
    }
}

/// Puts files in place, all or none, in a folder where none of them exists yet.
///
/// The last file's text waits under a fixed name while the others are put in place: making that file claims the
/// folder, and giving it its real name ends the claim.
pub(crate) fn create_all(files: &[(PathBuf, Zeroizing<String>)]) -> Result<(), StoreError> {
    let Some(((last, last_text), others)) = files.split_last() else {
        return Ok(());
    };
    let claim = beside(last, ".tmp");
    let mut undo = Undo::default();
    let mut file = match open_new(&claim) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(StoreError::UnderWay { path: claim });
        }
        opened => opened.map_err(|reason| failed(&claim, "be created", reason))?,
    };
    undo.made.push(claim.clone());
    // Under the claim, so that nobody puts one in place between this look and the renames.
    refuse_existing(files)?;
    write(&mut file, last_text).map_err(|reason| failed(&claim, "be written", reason))?;
    for (path, text) in others {
        write_over(path, text)?;
        undo.made.push(path.clone());
    }
    fs::rename(&claim, last).map_err(|reason| failed(last, "be put in place", reason))?;
    undo.keep_all();
    sync_folder(folder_of(last))
}

/// Makes the folder if it is missing; an empty one is closed to others, a used one must not be writable by others.
pub(crate) fn prepare_folder(path: &Path) -> Result<(), StoreError> {
    if !exists(path)? {
        let parent = folder_of(path);
        fs::create_dir_all(parent).map_err(|reason| failed(parent, "be created", reason))?;
        match make_folder(path) {
            Ok(()) => return sync_folder(parent),
            // Another process was faster: its folder is as good as one that was there before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(reason) => return Err(failed(path, "be created", reason)),
        }
    }
    let found = fs::metadata(path).map_err(|reason| failed(path, "be used", reason))?;
    if !found.is_dir() {
        return Err(failed(path, "be used", io::ErrorKind::NotADirectory.into()));
    }
    close_folder(path, &found)
}

fn refuse_existing(files: &[(PathBuf, Zeroizing<String>)]) -> Result<(), StoreError> {
    for (path, _) in files {
        if exists(path)? {
            return Err(StoreError::Exists { path: path.clone() });
        }
    }
    Ok(())
}

fn write_over(path: &Path, text: &str) -> Result<(), StoreError> {
    let suffix = random::bytes::<8>()
        .map_err(|_| failed(path, "be written", io::Error::other("the system gives no random bytes")))?;
    let temporary = beside(path, &format!(".{}.tmp", random::hex(&suffix)));
    let mut undo = Undo::default();
    let mut file = open_new(&temporary).map_err(|reason| failed(&temporary, "be created", reason))?;
    undo.made.push(temporary.clone());
    write(&mut file, text).map_err(|reason| failed(&temporary, "be written", reason))?;
    fs::rename(&temporary, path).map_err(|reason| failed(path, "be put in place", reason))?;
    undo.keep_all();
    Ok(())
}

fn write(file: &mut File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A hidden name in the same folder.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{suffix}"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(reason) => Err(failed(path, "be looked at", reason)),
    }
}

fn failed(path: &Path, action: &'static str, reason: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), action, reason }
}

fn open_new(path: &Path) -> io::Result<File> {
    private().write(true).create_new(true).open(path)
}

fn open_lock(path: &Path) -> io::Result<File> {
    private().write(true).create(true).truncate(false).open(path)
}

/// A file that is made is its owner's alone.
#[cfg(unix)]
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;

    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(not(unix))]
fn private() -> OpenOptions {
    OpenOptions::new()
}

#[cfg(unix)]
fn make_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

#[cfg(unix)]
fn close_folder(path: &Path, found: &fs::Metadata) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = found.permissions().mode() & 0o7777;
    let empty = fs::read_dir(path).map_err(|reason| failed(path, "be read", reason))?.next().is_none();
    if empty && mode & 0o077 != 0 {
        let private = fs::Permissions::from_mode(0o700);
        return fs::set_permissions(path, private)
            .map_err(|reason| failed(path, "be closed to others", reason));
    }
    if mode & 0o022 != 0 {
        return Err(StoreError::OpenFolder { path: path.to_owned(), mode });
    }
    Ok(())
}

#[cfg(not(unix))]
fn close_folder(_path: &Path, _found: &fs::Metadata) -> Result<(), StoreError> {
    Ok(())
}

/// Makes a rename durable. Some network and user-space filesystems cannot, and say so: nothing more can be done there.
#[cfg(unix)]
fn sync_folder(path: &Path) -> Result<(), StoreError> {
    match File::open(path).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced.map_err(|reason| failed(path, "be made durable", reason)),
    }
}

/// Elsewhere a folder cannot be opened to be synced; the filesystem's journal keeps renames in order.
#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("the folder can be read");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn file(path: PathBuf, text: &str) -> (PathBuf, Zeroizing<String>) {
        (path, Zeroizing::new(text.to_owned()))
    }

    #[test]
    fn files_made_together_are_all_there_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [file(folder.path().join("a"), "1"), file(folder.path().join("b"), "2")];
        create_all(&files).expect("an empty folder takes them");
        assert_eq!(names(folder.path()), ["a", "b"]);
        assert_eq!(fs::read_to_string(folder.path().join("b")).expect("it is there"), "2");
    }

    #[test]
    fn a_failure_half_way_removes_what_was_made_before_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [
            file(folder.path().join("a"), "1"),
            file(folder.path().join("missing").join("b"), "2"),
            file(folder.path().join("c"), "3"),
        ];
        let error = create_all(&files).expect_err("the second folder is missing");
        assert!(matches!(error, StoreError::Io { action: "be created", .. }), "{error}");
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_and_no_temporary_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pem");
        fs::create_dir(&path).expect("a folder in the file's place cannot be replaced");
        fs::write(path.join("inside"), "kept").expect("it can be written in");
        let error = replace(&path, "new").expect_err("a folder is not replaced");
        assert!(matches!(error, StoreError::Io { action: "be put in place", .. }), "{error}");
        assert_eq!(names(folder.path()), ["a.pem"]);
        assert_eq!(names(&path), ["inside"]);
    }

    #[test]
    fn a_bare_file_name_is_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("a.pem")), Path::new("."));
        assert_eq!(folder_of(Path::new("pki/a.pem")), Path::new("pki"));
        assert_eq!(beside(Path::new("pki/a.pem"), ".tmp"), Path::new("pki/.a.pem.tmp"));
    }
}
