//! The project's gates: what a reviewer would otherwise have to look for by hand.
//!
//! Each gate is a pure function from text to a list of complaints, and has beside it a bad sample
//! that it must reject: a gate that cannot fail is worse than none.

mod abi;
mod binary;
mod cc;
mod docs;
mod exports;
mod header;
mod options;
mod programs;
mod repo;
mod staticlib;
mod tidy;
