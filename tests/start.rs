//! The Rust example of README.md.

use cenote::ffi::block::{cenote_alloc, cenote_free};
use cenote::ffi::runtime::cenote_configure;
use cenote::ffi::types::CENOTE_DEFAULT_POOL;

#[test]
fn the_example_of_the_readme_works() {
    // SAFETY: both texts end with NUL.
    let status = unsafe { cenote_configure(c"backend".as_ptr(), c"host".as_ptr()) };
    assert_eq!(status, 0);
    let stream = std::ptr::null_mut();
    let mut block = std::ptr::null_mut();
    // SAFETY: the out-pointer is writable, and the legacy default stream always lives.
    let status = unsafe { cenote_alloc(CENOTE_DEFAULT_POOL, 1 << 20, stream, &mut block) };
    assert_eq!(status, 0);
    // SAFETY: as above; a wrong address would be a status.
    assert_eq!(unsafe { cenote_free(block, stream) }, 0);
}
