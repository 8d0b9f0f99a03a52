//! The driver and its process: fork, exit, a missing symbol, memory of another process.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::code;
use crate::driver::{Library, PAGE};
use crate::fake::{self, in_child, in_this_child, Fake};

#[test]
fn the_driver_does_not_survive_a_fork() {
    in_child("process::the_driver_does_not_survive_a_fork", &[], |fake| {
        let cu = &fake.cu;
        cu.start(0);
        let addr = cu.mapped(1);
        // SAFETY: the child calls one function of the driver, which takes no lock there, and ends.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(cu.cuMemUnmap(addr, PAGE) as i32);
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            libc::WEXITSTATUS(status)
        };
        assert_eq!(status as u32, code::NOT_INITIALIZED);
        assert_eq!(cu.cuMemUnmap(addr, PAGE), code::OK, "the parent is unharmed");
    });
}

#[test]
fn a_symbol_can_be_missing() {
    let test = "process::a_symbol_can_be_missing";
    if in_this_child(test) {
        let library = Library::open("libcuda.so.1").expect("the parent put it on the path");
        assert!(library.symbol("cuMemMap").is_null());
        assert!(!library.symbol("cuMemUnmap").is_null());
        return;
    }
    match fake::folder_without("cuMemMap") {
        Ok(folder) => fake::run_child(test, &folder, &[]),
        Err(why) => println!("skipped {test}: {why}"),
    }
}

static SYNCHRONIZE: AtomicUsize = AtomicUsize::new(0);

/// Runs after the driver's own handler, because it was registered before `cuInit`.
extern "C" fn call_late() {
    // SAFETY: the test stored the address of `cuCtxSynchronize`, whose library stays loaded.
    let code = unsafe {
        let address = SYNCHRONIZE.load(Ordering::SeqCst);
        std::mem::transmute::<usize, extern "C" fn() -> u32>(address)()
    };
    // SAFETY: ends the process with what the late call gave.
    unsafe { libc::_exit(40 + code as i32) }
}

#[test]
fn the_driver_is_gone_when_the_process_exits() {
    let test = "process::the_driver_is_gone_when_the_process_exits";
    if in_this_child(test) {
        let fake = Fake::attach().expect("the parent put it on the path");
        SYNCHRONIZE.store(fake.library.symbol("cuCtxSynchronize") as usize, Ordering::SeqCst);
        // SAFETY: the handler is a function of this program.
        unsafe { libc::atexit(call_late) };
        fake.cu.start(0);
        assert_eq!(fake.cu.cuCtxSynchronize(), code::OK);
        return;
    }
    match fake::folder() {
        Ok(folder) => assert_eq!(exit_code(test, folder, "0"), Some(40 + 4), "DEINITIALIZED"),
        Err(why) => println!("skipped {test}: {why}"),
    }
}

/// Run a part of this file in a child and give its exit code.
fn exit_code(test: &str, folder: &std::path::Path, strict: &str) -> Option<i32> {
    let mut command = Command::new(std::env::current_exe().expect("a running test has a path"));
    command.args([test, "--exact", "--test-threads=1"]);
    fake::settings(&mut command, folder, &[("FAKECUDA_STRICT_EXIT", strict)]);
    let output = command.env("FAKECUDA_CHILD", test).output().expect("a test can be started");
    output.status.code()
}

#[test]
fn violations_can_fail_a_process() {
    let test = "process::violations_can_fail_a_process";
    if in_this_child(test) {
        let fake = Fake::attach().expect("the parent put it on the path");
        fake.cu.start(0);
        let stream = fake.cu.stream(true);
        assert_eq!(fake.cu.cuStreamDestroy_v2(stream), code::OK);
        assert_eq!(fake.cu.cuStreamQuery(stream), code::INVALID_HANDLE);
        return;
    }
    match fake::folder() {
        Ok(folder) => {
            assert_eq!(exit_code(test, folder, "0"), Some(0));
            assert_eq!(exit_code(test, folder, "1"), Some(86));
        }
        Err(why) => println!("skipped {test}: {why}"),
    }
}

#[test]
fn memory_crosses_processes() {
    in_child("process::memory_crosses_processes", &[], |fake| {
        let cu = &fake.cu;
        // The importer is forked before the driver starts, and loads a driver of its own state.
        let mut pair = [0; 2];
        // SAFETY: plain system calls; the child only receives a descriptor, calls the driver, which
        // nothing used before the fork, and ends.
        let child = unsafe {
            assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                libc::_exit(import_and_read(fake, pair[1]));
            }
            child
        };
        cu.start(0);
        let (_before, handle, addr) = (cu.create(PAGE), cu.create(PAGE), cu.reserve(PAGE));
        cu.map(addr, PAGE, handle);
        assert_eq!(cu.cuMemsetD8Async(addr, 77, PAGE, 0), code::OK);
        let mut fd = -1;
        assert_eq!(cu.cuMemExportToShareableHandle(&mut fd, handle, 1, 0), code::OK);
        send_fd(pair[0], fd);
        let mut status = 0;
        // SAFETY: the child started above.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 77);
    });
}

fn import_and_read(fake: &Fake, socket: i32) -> i32 {
    let cu = &fake.cu;
    cu.start(0);
    let fd = receive_fd(socket);
    let mut handle = 0;
    if cu.cuMemImportFromShareableHandle(&mut handle, fd as usize, 1) != code::OK {
        return 1;
    }
    let addr = cu.reserve(PAGE);
    cu.map(addr, PAGE, handle);
    // SAFETY: just mapped.
    i32::from(unsafe { (addr as *const u8).add(PAGE - 1).read_volatile() })
}

/// A message of one byte with room for a descriptor.
fn message(buffer: &mut [u64; 8], part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all zeroes is a valid message header.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = buffer.as_mut_ptr().cast();
    // SAFETY: computes a size.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    header
}

fn send_fd(socket: i32, fd: i32) {
    let (mut buffer, mut byte) = ([0u64; 8], 0u8);
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let header = message(&mut buffer, &mut part);
    // SAFETY: the header names a buffer that is large enough for one descriptor.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(first).cast::<i32>().write_unaligned(fd);
        assert_eq!(libc::sendmsg(socket, &header, 0), 1);
    }
}

fn receive_fd(socket: i32) -> i32 {
    let (mut buffer, mut byte) = ([0u64; 8], 0u8);
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut header = message(&mut buffer, &mut part);
    // SAFETY: as in `send_fd`; the kernel fills the buffer.
    unsafe {
        if libc::recvmsg(socket, &mut header, 0) != 1 {
            return -1;
        }
        libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&header)).cast::<i32>().read_unaligned()
    }
}
