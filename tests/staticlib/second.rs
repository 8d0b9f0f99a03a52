//! A second Rust static library in one C program: it brings its own standard library.

/// Panics inside and catches it: the unwinder must find this copy's personality.
#[no_mangle]
pub extern "C" fn second_call(value: u32) -> u32 {
    std::panic::set_hook(Box::new(|_| {}));
    std::panic::catch_unwind(|| {
        let text = format!("{value}");
        assert!(value < 100, "large");
        text.len() as u32
    })
    .unwrap_or(0)
}
