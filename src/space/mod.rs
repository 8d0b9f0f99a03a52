//! Layer 2: addresses and the physical memory behind them.
//!
//! A *region* is a large reservation of addresses. Its bytes are divided into *ranges*: live blocks
//! and free ranges, linked in address order. A *handle* is physical memory that the driver gave,
//! one or more pages; an *alias* is one place where a handle is mapped. **A handle may keep several
//! aliases at once, but only one is active**: the one through which live blocks use it. When a
//! handle is idle, any of its aliases may become the active one without a driver call. So a
//! workload that repeats itself finds, after its first round, every place already mapped, while the
//! physical memory held stays at what is live: taking an idle handle over costs two driver calls
//! once and none later.
//!
//! Free ranges are *ready* (all pages mapped), *unmapped*, *blocked* (mapped, but the handle is in
//! use through another alias) or *busy* (a driver call is under way). Ready is optimistic: the
//! handle of a ready page may be in use elsewhere since; `Handles::acquire` finds out and the range
//! is then marked blocked until the handle is idle again.
//!
//! Nothing here calls the driver: a `Plan` says what to call, the pool calls it with no lock held
//! and commits or rolls back.

pub mod handles;
pub mod ranges;
pub mod region;

pub use handles::{Handles, Tag};
pub use ranges::{Kind, Ranges};
pub use region::{PageMap, Region};
