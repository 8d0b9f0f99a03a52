//! How the library starts where the driver is missing, broken or without devices: each case is a
//! process of its own, because a driver is opened once.

use std::path::{Path, PathBuf};
use std::process::Command;

use cenote::device::select::{open, Choice};
use cenote::device::BackendKind;

use crate::driver::Fake;
use crate::subject::cuda_device;

const CHILD: &str = "CENOTE_CONFORMANCE_CHILD";

/// Not a test of its own: says what `open` gives in the process of a case below.
#[test]
fn child() {
    let Ok(choice) = std::env::var(CHILD) else { return };
    let answer = match open(Choice::parse(&choice).expect("a choice of the cases below")) {
        Ok(backend) if backend.kind() == BackendKind::Host => "opened host".to_owned(),
        Ok(backend) => format!("opened {:?}, {} devices", backend.kind(), backend.device_count()),
        Err(error) => format!("{} {} {}", error.status.name(), error.backend_code, error.what),
    };
    println!("answer: {answer}");
}

fn answer(choice: &str, environment: &[(&str, &str)]) -> String {
    let executable = std::env::current_exe().expect("the test knows its own file");
    let mut command = Command::new(executable);
    command.args(["--exact", "cuda::start::child", "--nocapture"]).env(CHILD, choice);
    let output = command.envs(environment.iter().copied()).output().expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("answer: "));
    line.unwrap_or_else(|| panic!("no answer of the child: {text}")).1.to_owned()
}

/// Whether the fake driver serves; the real one cannot be made to fail.
fn fake_serves(test: &str) -> bool {
    let found = cuda_device().is_ok() && Fake::find().is_some();
    if !found {
        println!("skipped: {test}: needs the fake driver");
    }
    found
}

#[test]
fn with_a_driver() {
    if !fake_serves("with_a_driver") {
        return;
    }
    let two = [("FAKECUDA_DEVICES", "2")];
    assert_eq!(answer("auto", &two), "opened Cuda, 2 devices");
    assert_eq!(answer("cuda", &two), "opened Cuda, 2 devices");
    assert_eq!(answer("host", &two), "opened host");
}

#[test]
fn without_a_device() {
    if !fake_serves("without_a_device") {
        return;
    }
    for none in [("FAKECUDA_DEVICES", "0"), ("FAKECUDA_INIT", "100")] {
        assert_eq!(answer("auto", &[none]), "opened host");
        assert!(answer("cuda", &[none]).starts_with("CENOTE_E_NO_DEVICE"), "{none:?}");
    }
}

#[test]
fn with_a_driver_that_fails() {
    if !fake_serves("with_a_driver_that_fails") {
        return;
    }
    for code in ["999", "803", "3"] {
        let fails = [("FAKECUDA_INIT", code)];
        let wanted = format!("CENOTE_E_DRIVER_INIT {code} cuInit");
        assert_eq!(answer("auto", &fails), wanted, "never a silent fallback");
        assert_eq!(answer("cuda", &fails), wanted);
        assert_eq!(answer("host", &fails), "opened host");
    }
    let stub = [("FAKECUDA_INIT", "34")];
    assert_eq!(answer("auto", &stub), "opened host", "a stub is no driver");
    assert!(answer("cuda", &stub).starts_with("CENOTE_E_NO_DRIVER 34"));
}

#[test]
fn without_a_driver() {
    let nowhere = [("LD_LIBRARY_PATH", "")];
    let forced = answer("cuda", &nowhere);
    if forced.starts_with("opened") || forced.starts_with("CENOTE_E_NO_DEVICE") {
        println!("skipped: without_a_driver: the system has one");
        return;
    }
    assert_eq!(forced, "CENOTE_E_NO_DRIVER 0 libcuda.so.1 was not found");
    assert_eq!(answer("auto", &nowhere), "opened host");
}

/// A library with the driver's name and almost nothing in it.
fn hollow_driver() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hollow");
    std::fs::create_dir_all(&folder).ok()?;
    let source = folder.join("hollow.c");
    std::fs::write(&source, "int cuInit(unsigned flags) { return (int)flags; }\n").ok()?;
    for name in ["libcuda.so", "libcuda.so.1"] {
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-o"]).arg(folder.join(name)).arg(&source);
        command.status().ok().filter(|status| status.success())?;
    }
    Some(folder)
}

#[test]
fn with_a_driver_that_lacks_a_function() {
    let Some(folder) = hollow_driver() else {
        println!("skipped: with_a_driver_that_lacks_a_function: needs a C compiler (cc)");
        return;
    };
    let hollow = [("LD_LIBRARY_PATH", folder.to_str().expect("the target folder is UTF-8"))];
    let wanted = "CENOTE_E_DRIVER_SYMBOL 0 cuDriverGetVersion";
    assert_eq!(answer("auto", &hollow), wanted, "never a silent fallback");
    assert_eq!(answer("cuda", &hollow), wanted);
}
