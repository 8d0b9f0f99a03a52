//! The fake driver must refuse what the real one refuses: each rule gets its bad sample here.
//!
//! The driver is loaded by path through `support/fake.rs`; each test is a process of its own.

#[path = "../support/driver.rs"]
mod driver;
#[path = "../support/fake.rs"]
mod fake;

mod captures;
mod contexts;
mod faults;
mod memory;
mod process;
mod work;

/// Codes of the driver that the tests name.
mod code {
    pub const OK: u32 = 0;
    pub const INVALID_VALUE: u32 = 1;
    pub const OUT_OF_MEMORY: u32 = 2;
    pub const NOT_INITIALIZED: u32 = 3;
    pub const NO_DEVICE: u32 = 100;
    pub const INVALID_DEVICE: u32 = 101;
    pub const INVALID_CONTEXT: u32 = 201;
    pub const INVALID_HANDLE: u32 = 400;
    pub const ILLEGAL_STATE: u32 = 401;
    pub const NOT_READY: u32 = 600;
    pub const ILLEGAL_ADDRESS: u32 = 700;
    pub const LAUNCH_TIMEOUT: u32 = 702;
    pub const CONTEXT_IS_DESTROYED: u32 = 709;
    pub const ALREADY_REGISTERED: u32 = 712;
    pub const NOT_REGISTERED: u32 = 713;
    pub const NOT_PERMITTED: u32 = 800;
    pub const NOT_SUPPORTED: u32 = 801;
    pub const CAPTURE_UNSUPPORTED: u32 = 900;
    pub const CAPTURE_INVALIDATED: u32 = 901;
    pub const CAPTURE_MERGE: u32 = 902;
    pub const CAPTURE_UNMATCHED: u32 = 903;
    pub const CAPTURE_UNJOINED: u32 = 904;
    pub const CAPTURE_ISOLATION: u32 = 905;
    pub const CAPTURE_IMPLICIT: u32 = 906;
    pub const CAPTURED_EVENT: u32 = 907;
    pub const CAPTURE_WRONG_THREAD: u32 = 908;
}
