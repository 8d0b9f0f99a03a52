//! Small steps over the C ABI that several commands need.

use crate::failure::{Failure, Outcome};
use cenote::ffi::device::cenote_device_info;
use cenote::ffi::runtime::*;
use cenote::ffi::types::*;
use std::ffi::{c_char, CStr, CString};

/// A text that the library owns.
pub fn text(static_text: *const c_char) -> String {
    if static_text.is_null() {
        return String::new();
    }
    // SAFETY: the functions that give such a text promise a NUL-terminated static one.
    unsafe { CStr::from_ptr(static_text) }.to_string_lossy().into_owned()
}

/// The text in a struct's array, up to its NUL.
pub fn array_text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|c| *c as u8).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The message of the last failed call, if it ended with this status.
pub fn last_error(status: cenote_status) -> String {
    // SAFETY: plain integers and characters, for which zero bytes are a value.
    let mut error: cenote_error = unsafe { std::mem::zeroed() };
    error.struct_size = size_of::<cenote_error>() as u32;
    // SAFETY: struct_size says how much may be written.
    let read = unsafe { cenote_last_error(&mut error) };
    if read == 0 && error.status == status {
        array_text(&error.message)
    } else {
        String::new()
    }
}

/// A failed call as a failed run.
pub fn check(what: &str, status: cenote_status) -> Outcome<()> {
    if status == 0 {
        return Ok(());
    }
    let (name, detail) = (text(cenote_status_name(status)), last_error(status));
    Err(Failure::run(match detail.as_str() {
        "" => format!("{what}: {name}"),
        detail => detail.to_string(),
    }))
}

/// Set an option, before the first pool; a value that cannot be is the user's mistake.
pub fn configure(name: &str, value: &str) -> Outcome<()> {
    let (Ok(c_name), Ok(c_value)) = (CString::new(name), CString::new(value)) else {
        return Err(Failure::usage(format_args!("{name}: the value holds a NUL character")));
    };
    // SAFETY: both texts are NUL-terminated and outlive the call.
    let status = unsafe { cenote_configure(c_name.as_ptr(), c_value.as_ptr()) };
    check("cenote_configure", status).map_err(Failure::usage)
}

/// The backend that serves this process.
pub fn runtime_info() -> Outcome<cenote_runtime_info_t> {
    // SAFETY: plain integers.
    let mut info: cenote_runtime_info_t = unsafe { std::mem::zeroed() };
    info.struct_size = size_of::<cenote_runtime_info_t>() as u32;
    // SAFETY: struct_size says how much may be written.
    check("cenote_runtime_info", unsafe { cenote_runtime_info(&mut info) })?;
    Ok(info)
}

/// A device's facts.
pub fn device_info(device: i32) -> Outcome<cenote_device_info_t> {
    // SAFETY: plain integers and characters.
    let mut info: cenote_device_info_t = unsafe { std::mem::zeroed() };
    info.struct_size = size_of::<cenote_device_info_t>() as u32;
    // SAFETY: struct_size says how much may be written.
    check("cenote_device_info", unsafe { cenote_device_info(device, &mut info) })?;
    Ok(info)
}

/// An option with its value and source.
pub fn option(index: u32) -> Outcome<cenote_option_t> {
    // SAFETY: plain integers and characters.
    let mut option: cenote_option_t = unsafe { std::mem::zeroed() };
    option.struct_size = size_of::<cenote_option_t>() as u32;
    // SAFETY: struct_size says how much may be written.
    check("cenote_option_at", unsafe { cenote_option_at(index, &mut option) })?;
    Ok(option)
}

/// The option of a name, if this library has one.
pub fn option_named(name: &str) -> Outcome<Option<cenote_option_t>> {
    for index in 0..cenote_option_count() {
        let option = option(index)?;
        if array_text(&option.name) == name {
            return Ok(Some(option));
        }
    }
    Ok(None)
}

/// A pool descriptor with every default.
pub fn zeroed_pool_desc() -> cenote_pool_desc {
    // SAFETY: plain integers and characters.
    let mut desc: cenote_pool_desc = unsafe { std::mem::zeroed() };
    desc.struct_size = size_of::<cenote_pool_desc>() as u32;
    desc
}

/// Name of a backend number.
pub fn backend_name(backend: u32) -> &'static str {
    match backend {
        CENOTE_BACKEND_HOST => "host",
        CENOTE_BACKEND_CUDA => "cuda",
        _ => "vtable",
    }
}
