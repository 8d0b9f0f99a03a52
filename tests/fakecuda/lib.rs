//! The fake CUDA driver: `libcuda.so.1` without a GPU, as strict as the real one.
//!
//! It is a shared library with the driver's symbols. A test copies it as `libcuda.so.1` into a
//! folder of its own and puts that folder on the library path of a child process, so that the
//! *real* CUDA backend runs against it (`tests/support/fake.rs` does this). What the real driver
//! refuses is refused with the same code; what the real driver silently turns into corruption is
//! noted as a violation.
//!
//! The answers are those of driver 580.159 on an H200, as `tests/gpu/probe.cu` asks for them. The
//! fake is stricter on purpose where the driver lets a mistake of ours pass: it refuses to unmap
//! what is not mapped, to map across the end of a reservation or across two that adjoin, and to map
//! a released handle, at which the driver crashes.
//!
//! # What it is made of
//!
//! | module | part |
//! |---|---|
//! | `api` | the exported driver functions |
//! | `control` | the exported `fakecuda_…` functions for tests |
//! | `gate` | the way into every function: life of the process, faults, log, contexts |
//! | `context`, `thread` | contexts, and what each thread has current |
//! | `phys`, `memory`, `vmm`, `plain` | memory: sparse files, mappings, allocations |
//! | `engine`, `pump` | streams, events, the clock, and running the work |
//! | `capture`, `graph`, `callback` | captures and their rules, graphs, user objects |
//!
//! # How it behaves
//!
//! Physical memory lies in sparse memory files, one a device; mapping maps the file, so that pages
//! alias, unmap and fault. Work completes at once unless it is a kernel that a test launched with
//! `fakecuda_launch` (it runs until released, or for a time), its stream is held, or completions
//! lag. A stream handle comes back with the next create, its id never. Work that touches what is
//! not mapped for its device breaks the context with code 700, as the real one does.
//!
//! # Settings
//!
//! Read from the environment when the library is first used; those marked * can be changed later by
//! `fakecuda_set_option` under the name in lower case without the prefix.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `FAKECUDA_DEVICES` | 1 | devices; 0 makes `cuInit` return NO_DEVICE |
//! | `FAKECUDA_TOTAL_BYTES` | 16 GiB | memory of each device |
//! | `FAKECUDA_VERSION` * | 13000 | version of the driver |
//! | `FAKECUDA_INIT` * | 0 | code that `cuInit` returns |
//! | `FAKECUDA_ATTRIBUTES` | | `number=value,…`: device attributes (102 = virtual memory) |
//! | `FAKECUDA_DETERMINISTIC` * | 0 | 1: the clock stands until it is advanced or waited for |
//! | `FAKECUDA_LAG_OPS` * | 0 | work completes this many pieces of work later, or when waited for |
//! | `FAKECUDA_QUERY_ADVANCE_US` * | 0 | a query of unfinished work advances the clock |
//! | `FAKECUDA_HANG_MS` * | 30000 | a host wait that lasts longer fails (702) |
//! | `FAKECUDA_VMM_NEEDS_CONTEXT` * | 0 | 1: virtual-memory calls need a current context |
//! | `FAKECUDA_STREAM_NEEDS_CONTEXT` * | 0 | 1: calls on explicit streams and events need one |
//! | `FAKECUDA_RESERVE_LIMIT_BYTES` * | 128 TiB | address space that can be reserved |
//! | `FAKECUDA_DESTRUCTOR_DELAY_US` * | 100 | destructors of user objects run this much later |
//! | `FAKECUDA_HOST_ACCESS` * | 1 | 0: the host faults when it touches device memory |
//! | `FAKECUDA_FAIL` | | `name:nth=code,…`; `nthxtimes` repeats, `code!` is sticky |
//! | `FAKECUDA_DELAY` | | `name=microseconds,…` |
//! | `FAKECUDA_MISSING` | | names that `cuGetProcAddress_v2` does not find |
//! | `FAKECUDA_STRICT_EXIT` * | 0 | 1: exit code 86 and a message if there were violations |

#![allow(non_snake_case, reason = "exported functions have the driver's names")]
#![allow(missing_docs, reason = "the driver's functions are documented by its own manual")]

mod abi;
mod api;
mod callback;
mod capture;
mod config;
mod context;
mod control;
mod engine;
mod function;
mod gate;
mod graph;
mod handle;
mod memory;
mod phys;
mod plain;
mod pump;
mod state;
mod thread;
mod vmm;
