//! Status codes: one fixed number for each thing that can go wrong.
//!
//! The numbers are part of the ABI: never changed, never reused. A family is a range:
//! 1000 the caller's argument, 2000 memory, 3000 device and driver, 4000 state, 9000 internal.

/// Result of a call: 0 is success, every other value names one cause.
///
/// An integer, never a Rust enum: a number that this build does not know may arrive from a newer
/// copy of the library and must not be undefined behaviour.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($name:ident = $num:literal, $text:literal;)*) => {
        impl Status {
            $(#[doc = $text] pub const $name: Status = Status($num);)*

            /// Every status with its C name and one-line meaning, in ascending order.
            pub const ALL: &'static [(Status, &'static str, &'static str)] = &[
                $((
                    Status($num),
                    concat!("CENOTE_", stringify!($name), "\0"),
                    concat!($text, "\0"),
                ),)*
            ];
        }
    };
}

statuses! {
    OK = 0, "success";
    E_NULL = 1001, "a required pointer argument is NULL";
    E_ARGUMENT = 1002, "an argument is outside its range";
    E_ALIGNMENT = 1003, "the alignment is not a power of two or is too large";
    E_SIZE = 1004, "the size overflows or exceeds the address space";
    E_FLAGS = 1005, "unknown or contradictory flag bits";
    E_STRUCT_SIZE = 1006, "struct_size is too small, or unknown tail fields are not zero";
    E_HANDLE = 1007, "the pool handle is stale or was never issued";
    E_STREAM = 1008, "the registered stream is retired or was never registered";
    E_DEVICE = 1009, "there is no such device";
    E_FOREIGN_POINTER = 1010, "the address was not allocated by cenote";
    E_INTERIOR_POINTER = 1011, "the address points into a block, not to its start";
    E_DOUBLE_FREE = 1012, "the block is already free";
    E_SIZE_MISMATCH = 1013, "the size given differs from the size allocated";
    E_OPTION = 1014, "there is no option of this name";
    E_VALUE = 1015, "the value of the option cannot be read, or is ambiguous";
    E_ABI = 1016, "the caller was built for another ABI generation";
    E_GRAPH = 1017, "there is no captured graph of this id";
    E_OUT_OF_MEMORY = 2001, "the device has no memory left for the request";
    E_LIMIT = 2002, "a limit set on the pool, the device or the process refuses the request";
    E_ADDRESS_SPACE = 2003, "the virtual address space is exhausted";
    E_WOULD_BLOCK = 2004, "memory is pending and NOWAIT forbids waiting for it";
    E_WOULD_GROW = 2005, "the pool would have to grow and NO_GROW forbids it";
    E_HOST_MEMORY = 2006, "the host has no memory left for bookkeeping";
    E_NO_DRIVER = 3001, "the CUDA driver library is not installed";
    E_DRIVER_SYMBOL = 3002, "the CUDA driver lacks a function that is needed";
    E_DRIVER_INIT = 3003, "the CUDA driver failed to initialise";
    E_DRIVER = 3004, "a driver call failed";
    E_CONTEXT_LOST = 3005, "the device context is lost (first error kept): restart the process";
    E_NOT_SUPPORTED = 3006, "the device or the backend cannot do this";
    E_NO_DEVICE = 3007, "the driver reports no device";
    E_DRIVER_EXIT = 3008, "the driver is shutting down";
    E_NO_LIBRARY = 3009, "the cenote library is not installed or cannot be opened";
    E_SHUTDOWN = 4001, "cenote was shut down in this process";
    E_FORKED = 4002, "cenote was used before a fork; the child cannot use it";
    E_SECOND_COPY = 4003, "another copy of cenote already serves this process";
    E_REENTRANT = 4004, "called from inside cenote, from a callback or a signal handler";
    E_CONFIGURED = 4005, "too late: options are fixed once the first pool exists";
    E_PINNED = 4006, "the block is pinned";
    E_CAPTURE = 4007, "not possible in this state of a stream capture";
    E_POOL_BUSY = 4008, "the pool still has live blocks";
    E_NOT_RECORDED = 4009, "no use of the block was recorded on this stream";
    E_INTERNAL = 9001, "internal error: cenote's own bookkeeping is inconsistent";
    E_PANIC = 9002, "internal error: a panic was caught at the ABI border";
}

impl Status {
    /// True for success.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// The C name ("CENOTE_E_LIMIT") without its terminator.
    pub fn name(self) -> &'static str {
        Self::find(self).map_or("CENOTE_E_UNKNOWN", |e| e.1.trim_end_matches('\0'))
    }

    /// The one-line meaning, without its terminator.
    pub fn text(self) -> &'static str {
        Self::find(self).map_or("unknown status", |e| e.2.trim_end_matches('\0'))
    }

    /// The entry of the table, if this build knows the number.
    pub fn find(self) -> Option<&'static (Status, &'static str, &'static str)> {
        Self::ALL.iter().find(|e| e.0 == self)
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}
