//! What fuzzing has collected, played through the same doors without a fuzzer: every file of tests/fuzz/corpus, on every run
//! of the tests. Finding new inputs is tests/fuzz's business.

use iop_tests::fuzz::{DOORS, Door};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Inputs are examples, not archives: so many of a target at most, each of so many bytes.
const MAX_FILES: usize = 50;
const MAX_BYTES: usize = 2048;

fn fuzz_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz")
}

/// Names of what is in a folder of the fuzz crate.
fn names(folder: &str) -> BTreeSet<String> {
    let path = fuzz_folder().join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("names are text");
    entries.map(|entry| name(entry.expect("the folder can be read"))).collect()
}

#[test]
fn every_file_of_the_corpus_goes_through_its_door() {
    let mut broken = Vec::new();
    for (name, door) in DOORS {
        let files = names(&format!("corpus/{name}"));
        assert!((10..=MAX_FILES).contains(&files.len()), "{name} has {} files", files.len());
        let paths = files.iter().map(|file| format!("corpus/{name}/{file}"));
        broken.extend(paths.filter(|path| !passes(path, door)));
    }
    assert!(broken.is_empty(), "these files of tests/fuzz break their doors, see above: {broken:#?}");
}

fn passes(path: &str, door: Door) -> bool {
    let input = fs::read(fuzz_folder().join(path)).expect("the file can be read");
    assert!(input.len() <= MAX_BYTES, "{path} has {} bytes", input.len());
    catch_unwind(AssertUnwindSafe(|| door(&input))).is_ok()
}

#[test]
fn every_door_has_a_fuzz_target_and_a_corpus_and_there_are_no_others() {
    let doors: BTreeSet<String> = DOORS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(doors.len(), DOORS.len(), "each name once");
    assert_eq!(names("corpus"), doors);
    let files = names("fuzz_targets");
    let targets: BTreeSet<String> =
        files.iter().map(|file| file.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(targets, doors);
    for target in &targets {
        let text = fs::read_to_string(fuzz_folder().join(format!("fuzz_targets/{target}.rs")));
        let call = format!("iop_tests::fuzz::{target}(data)");
        assert!(text.expect("the target can be read").contains(&call), "{target} calls its own door");
    }
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).expect("the crate has a manifest");
    let listed = manifest.split("[[bin]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next());
    assert_eq!(listed.map(str::to_owned).collect::<BTreeSet<_>>(), doors);
    let page = fs::read_to_string(fuzz_folder().join("README.md")).expect("the crate has a page");
    for door in &doors {
        assert!(page.contains(&format!("| `{door}` |")), "README.md has a row of {door}");
    }
}
