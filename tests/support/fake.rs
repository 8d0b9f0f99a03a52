//! Running tests on the fake CUDA driver: a folder with `libcuda.so.1`, a child process that finds
//! it, and the functions that steer it.
//!
//! A test file includes this module and its neighbour:
//!
//! ```text
//! #[path = "support/driver.rs"]
//! mod driver;
//! #[path = "support/fake.rs"]
//! mod fake;
//!
//! #[test]
//! fn frees_wait_for_kernels() {
//!     fake::in_child("frees_wait_for_kernels", &[("FAKECUDA_DETERMINISTIC", "1")], |fake| {
//!         let context = fake.cu.start(0);
//!         …
//!     });
//! }
//! ```
//!
//! Each test runs in a process of its own, because the driver's settings are read when it is loaded
//! and a broken context stays broken.

#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::{c_char, CString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::driver::{Driver, Library};
use crate::function_table;

const CHILD: &str = "FAKECUDA_CHILD";

/// A kernel for `Fake::launch`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    /// 0 ends at once, 1 runs until its token is released, 2 runs for a time.
    pub mode: u32,
    /// Byte that is written.
    pub write_value: u8,
    /// Byte that must be found.
    pub check_value: u8,
    /// Zero.
    pub reserved: u16,
    /// Names the kernel for `release`.
    pub token: u64,
    /// Duration in mode 2.
    pub duration_us: u64,
    /// Range written when the kernel ends.
    pub write_addr: u64,
    /// Its length.
    pub write_len: u64,
    /// Range that must hold `check_value` when the kernel starts and when it ends.
    pub check_addr: u64,
    /// Its length.
    pub check_len: u64,
}

impl Kernel {
    /// A kernel that ends at once.
    pub fn instant() -> Kernel {
        Kernel::default()
    }

    /// A kernel that runs until its token is released.
    pub fn until_release(token: u64) -> Kernel {
        Kernel { mode: 1, token, ..Kernel::default() }
    }

    /// A kernel that runs for a time of the driver's clock.
    pub fn for_us(duration_us: u64) -> Kernel {
        Kernel { mode: 2, duration_us, ..Kernel::default() }
    }

    /// Write a byte to a range when the kernel ends.
    pub fn writing(self, addr: u64, len: usize, value: u8) -> Kernel {
        Kernel { write_addr: addr, write_len: len as u64, write_value: value, ..self }
    }

    /// Check a range for a byte when the kernel starts and ends.
    pub fn checking(self, addr: u64, len: usize, value: u8) -> Kernel {
        Kernel { check_addr: addr, check_len: len as u64, check_value: value, ..self }
    }
}

/// One call in the log.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LogEntry {
    /// Number of the call, from 1.
    pub number: u64,
    /// Thread that made it.
    pub thread: u64,
    /// First arguments.
    pub args: [u64; 3],
    /// Number of the function.
    pub function: u32,
    /// Code returned.
    pub code: u32,
    /// Capture mode of the thread.
    pub mode: u32,
    /// Captures under way.
    pub captures: u32,
}

/// What is alive in the driver.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are explained at the driver's struct")]
pub struct Stats {
    pub handles: u64,
    pub physical: u64,
    pub mappings: u64,
    pub reservations: u64,
    pub reserved_bytes: u64,
    pub plain: u64,
    pub streams: u64,
    pub busy_streams: u64,
    pub events: u64,
    pub contexts: u64,
    pub graphs: u64,
    pub executables: u64,
    pub user_objects: u64,
    pub captures: u64,
}

function_table! { Controls {
    fakecuda_version() -> u32;
    fakecuda_set_option(name: *const c_char, value: u64) -> u32;
    fakecuda_set_attribute(attribute: i32, value: i32) -> ();
    fakecuda_set_total_bytes(device: u32, bytes: u64) -> u32;
    fakecuda_set_other_bytes(device: u32, bytes: u64) -> u32;
    fakecuda_used_bytes(device: u32) -> u64;
    fakecuda_launch(stream: usize, kernel: *const Kernel) -> u32;
    fakecuda_release(token: u64) -> ();
    fakecuda_hold_stream(stream: usize) -> u64;
    fakecuda_unhold_stream(id: u64) -> ();
    fakecuda_advance_us(micros: u64) -> ();
    fakecuda_now_us() -> u64;
    fakecuda_drain() -> ();
    fakecuda_fail(name: *const c_char, nth: u64, times: u64, error: u32, sticky: i32) -> u32;
    fakecuda_delay(name: *const c_char, micros: u64) -> u32;
    fakecuda_set_sticky(error: u32) -> ();
    fakecuda_clear_faults() -> ();
    fakecuda_count(name: *const c_char) -> u64;
    fakecuda_count_relaxed(name: *const c_char) -> u64;
    fakecuda_count_failed(name: *const c_char) -> u64;
    fakecuda_reset_counts() -> ();
    fakecuda_function_name(index: u32, buffer: *mut c_char, len: usize) -> u32;
    fakecuda_log(buffer: *mut LogEntry, capacity: usize) -> usize;
    fakecuda_violations() -> u64;
    fakecuda_violation_text(index: usize, buffer: *mut c_char, len: usize) -> u32;
    fakecuda_clear_violations() -> ();
    fakecuda_mismatches() -> u64;
    fakecuda_contexts_created(device: u32) -> u64;
    fakecuda_context_depth() -> u64;
    fakecuda_stats(out: &mut Stats) -> u32;
} }

/// The fake driver in this process.
pub struct Fake {
    /// The driver's own functions.
    pub cu: Driver,
    /// The library.
    pub library: Library,
    control: Controls,
}

fn c(name: &str) -> CString {
    CString::new(name).expect("names in tests have no zero byte")
}

impl Fake {
    /// The `libcuda.so.1` that this process finds, which must be the fake one.
    pub fn attach() -> Result<Fake, String> {
        let library = Library::open("libcuda.so.1")?;
        if library.symbol("fakecuda_version").is_null() {
            return Err("the libcuda.so.1 found first is not the fake one".to_owned());
        }
        let (cu, control) = (Driver::load(&library), Controls::load(&library));
        Ok(Fake { cu, library, control })
    }

    /// Change a setting (name in lower case); panics for a wrong name.
    pub fn set(&self, name: &str, value: u64) {
        let code = self.control.fakecuda_set_option(c(name).as_ptr(), value);
        assert_eq!(code, 0, "the driver has no setting {name}");
    }

    /// Set a device attribute.
    pub fn set_attribute(&self, attribute: i32, value: i32) {
        self.control.fakecuda_set_attribute(attribute, value);
    }

    /// Set the size of a device.
    pub fn set_total_bytes(&self, device: u32, bytes: u64) {
        assert_eq!(self.control.fakecuda_set_total_bytes(device, bytes), 0);
    }

    /// Set what other processes hold.
    pub fn set_other_bytes(&self, device: u32, bytes: u64) {
        assert_eq!(self.control.fakecuda_set_other_bytes(device, bytes), 0);
    }

    /// Bytes that this process holds on a device.
    pub fn used_bytes(&self, device: u32) -> u64 {
        self.control.fakecuda_used_bytes(device)
    }

    /// Launch a kernel; the code that a launch returns.
    pub fn launch(&self, stream: usize, kernel: Kernel) -> u32 {
        self.control.fakecuda_launch(stream, &kernel)
    }

    /// Let all kernels with a token end.
    pub fn release(&self, token: u64) {
        self.control.fakecuda_release(token);
    }

    /// Hold a stream; its id for `unhold`.
    pub fn hold(&self, stream: usize) -> u64 {
        let id = self.control.fakecuda_hold_stream(stream);
        assert_ne!(id, 0, "there is no stream {stream:#x}");
        id
    }

    /// Let a held stream go on.
    pub fn unhold(&self, id: u64) {
        self.control.fakecuda_unhold_stream(id);
    }

    /// Put the clock forward.
    pub fn advance_us(&self, micros: u64) {
        self.control.fakecuda_advance_us(micros);
    }

    /// Time of the clock.
    pub fn now_us(&self) -> u64 {
        self.control.fakecuda_now_us()
    }

    /// Run the destructors of user objects that wait.
    pub fn drain(&self) {
        self.control.fakecuda_drain();
    }

    /// Fail the `nth` call of a function from now (1 = the next).
    pub fn fail(&self, function: &str, nth: u64, code: u32) {
        self.fail_times(function, nth, 1, code, false);
    }

    /// Fail `times` calls from the `nth` on; a sticky code then fails everything.
    pub fn fail_times(&self, function: &str, nth: u64, times: u64, code: u32, sticky: bool) {
        let sticky = i32::from(sticky);
        let got = self.control.fakecuda_fail(c(function).as_ptr(), nth, times, code, sticky);
        assert_eq!(got, 0, "the driver cannot fail {function}");
    }

    /// Make every call of a function slower.
    pub fn delay(&self, function: &str, micros: u64) {
        assert_eq!(self.control.fakecuda_delay(c(function).as_ptr(), micros), 0, "{function}");
    }

    /// Break everything with a code; 0 mends it.
    pub fn set_sticky(&self, code: u32) {
        self.control.fakecuda_set_sticky(code);
    }

    /// Forget faults and delays.
    pub fn clear_faults(&self) {
        self.control.fakecuda_clear_faults();
    }

    /// Calls of a function; panics for a wrong name.
    pub fn count(&self, function: &str) -> u64 {
        let count = self.control.fakecuda_count(c(function).as_ptr());
        assert_ne!(count, u64::MAX, "the driver has no function {function}");
        count
    }

    /// Calls of a function in RELAXED mode.
    pub fn count_relaxed(&self, function: &str) -> u64 {
        self.control.fakecuda_count_relaxed(c(function).as_ptr())
    }

    /// Failed calls of a function.
    pub fn count_failed(&self, function: &str) -> u64 {
        self.control.fakecuda_count_failed(c(function).as_ptr())
    }

    /// Set all counters to zero.
    pub fn reset_counts(&self) {
        self.control.fakecuda_reset_counts();
    }

    /// The newest calls, oldest first: name and entry.
    pub fn log(&self, most: usize) -> Vec<(String, LogEntry)> {
        let mut entries = vec![LogEntry::default(); most];
        let count = self.control.fakecuda_log(entries.as_mut_ptr(), most);
        entries.truncate(count);
        entries
            .into_iter()
            .map(|entry| (self.name(entry.function).unwrap_or_default(), entry))
            .collect()
    }

    fn name(&self, function: u32) -> Option<String> {
        let control = &self.control;
        text(|buffer, len| control.fakecuda_function_name(function, buffer, len))
    }

    /// Names of all driver functions there are.
    pub fn function_names(&self) -> Vec<String> {
        (0..).map_while(|function| self.name(function)).collect()
    }

    /// Violations so far.
    pub fn violations(&self) -> u64 {
        self.control.fakecuda_violations()
    }

    /// Violations in words.
    pub fn violation_texts(&self) -> Vec<String> {
        let control = &self.control;
        let one = |index| text(|buffer, len| control.fakecuda_violation_text(index, buffer, len));
        (0..).map_while(one).collect()
    }

    /// Forget the violations.
    pub fn clear_violations(&self) {
        self.control.fakecuda_clear_violations();
    }

    /// Wrong bytes that checking kernels found.
    pub fn mismatches(&self) -> u64 {
        self.control.fakecuda_mismatches()
    }

    /// Contexts ever created on a device.
    pub fn contexts_created(&self, device: u32) -> u64 {
        self.control.fakecuda_contexts_created(device)
    }

    /// Depth of this thread's stack of contexts.
    pub fn context_depth(&self) -> u64 {
        self.control.fakecuda_context_depth()
    }

    /// What is alive.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        assert_eq!(self.control.fakecuda_stats(&mut stats), 0);
        stats
    }
}

fn text(fill: impl Fn(*mut c_char, usize) -> u32) -> Option<String> {
    let mut bytes = vec![0u8; 512];
    if fill(bytes.as_mut_ptr().cast(), bytes.len()) != 0 {
        return None;
    }
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// The folder of the build profile that this test was built with (`target/debug`).
fn profile_folder() -> PathBuf {
    let exe = std::env::current_exe().expect("a running test has a path");
    exe.ancestors().nth(2).expect("tests lie in target/PROFILE/deps").to_path_buf()
}

/// Build the library. Its path, or why it cannot be built here; a library that does not compile is
/// a failure, not a reason to skip.
fn build() -> Result<PathBuf, String> {
    let profile = profile_folder();
    let target = profile.parent().ok_or("the target folder has no parent")?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| env!("CARGO").to_owned());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--example", "fakecuda", "--target-dir"]).arg(target);
    command.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let output = command.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the fake driver does not build:\n{errors}");
    Ok(profile.join("examples/libfakecuda.so"))
}

/// Write a file so that another process sees the old or the new one, never a part.
fn replace(path: &Path, bytes: &[u8]) {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return;
    }
    let part = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, bytes).expect("the target folder is writable");
    std::fs::rename(&part, path).expect("the target folder is writable");
}

fn install(folder: PathBuf, bytes: &[u8]) -> PathBuf {
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    replace(&folder.join("libcuda.so.1"), bytes);
    // Loaders look for this name too, and must not find a real driver by it. A link, so that both
    // names are one library.
    let link = folder.join("libcuda.so");
    if std::fs::read_link(&link).is_err() {
        match std::os::unix::fs::symlink("libcuda.so.1", &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                panic!("cannot link {}: {error}", link.display())
            }
            _ => {}
        }
    }
    folder
}

/// The folder to put on LD_LIBRARY_PATH, or why there is none; built on the first call. A library
/// built elsewhere is used if FAKECUDA_LIBRARY names it.
pub fn folder() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder =
        FOLDER.get_or_init(|| Ok(install(profile_folder().join("fakecuda"), library_bytes()?)));
    folder.as_deref().map_err(Clone::clone)
}

fn library_bytes() -> Result<&'static [u8], String> {
    static BYTES: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let given = std::env::var_os("FAKECUDA_LIBRARY").map(PathBuf::from);
        let path = given.map_or_else(build, Ok)?;
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    });
    bytes.as_deref().map_err(Clone::clone)
}

/// A folder with a driver that lacks a symbol: its name is changed where the loader looks.
pub fn folder_without(symbol: &str) -> Result<PathBuf, String> {
    let mut bytes = library_bytes()?.to_vec();
    let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let found = bytes.windows(name.len()).position(|part| part == name);
    let at = found.unwrap_or_else(|| panic!("the driver has no symbol {symbol}")) + 1;
    bytes[at] = b'_';
    Ok(install(profile_folder().join(format!("fakecuda-without-{symbol}")), &bytes))
}

/// Settings for a command that shall find the driver in `folder`.
pub fn settings(command: &mut Command, folder: &Path, settings: &[(&str, &str)]) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FAKECUDA_") {
            command.env_remove(name);
        }
    }
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    command.env("LD_LIBRARY_PATH", path);
    command.envs(settings.iter().copied());
}

/// Run a test's body in a child process on the fake driver. `test` is the test's full name.
pub fn in_child(test: &str, env: &[(&str, &str)], body: impl FnOnce(&Fake)) {
    if in_this_child(test) {
        body(&Fake::attach().expect("the parent put the driver on the library path"));
        return;
    }
    match folder() {
        Ok(folder) => run_child(test, folder, env),
        Err(why) => println!("skipped {test}: {why}"),
    }
}

/// Whether this process is the child that `run_child` started for a test.
pub fn in_this_child(test: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|name| name == test)
}

/// Start this test again with the driver in `folder`, and panic with its output if it fails.
pub fn run_child(test: &str, folder: &Path, env: &[(&str, &str)]) {
    let exe = std::env::current_exe().expect("a running test has a path");
    let mut command = Command::new(exe);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    settings(&mut command, folder, env);
    let output = command.env(CHILD, test).output().expect("a test can be started again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} in a child: {}\n{text}{errors}",
        output.status
    );
}
