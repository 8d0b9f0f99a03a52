//! Start, devices and contexts.

use crate::code;
use crate::driver::{Prop, PAGE};
use crate::fake::in_child;

#[test]
fn nothing_works_before_init() {
    in_child("contexts::nothing_works_before_init", &[], |fake| {
        let cu = &fake.cu;
        let (mut count, mut context, mut version) = (0, 0, 0);
        assert_eq!(cu.cuDeviceGetCount(&mut count), code::NOT_INITIALIZED);
        assert_eq!(cu.cuDevicePrimaryCtxRetain(&mut context, 0), code::NOT_INITIALIZED);
        assert_eq!(cu.cuDriverGetVersion(&mut version), code::OK);
        assert_eq!(version, 13000);
        assert_eq!(cu.cuInit(1), code::INVALID_VALUE);
        assert_eq!(cu.cuInit(0), code::OK);
        assert_eq!(cu.cuDeviceGetCount(&mut count), code::OK);
        assert_eq!(count, 1);
        let mut name: *const std::ffi::c_char = std::ptr::null();
        assert_eq!(cu.cuGetErrorName(2, &mut name), code::OK);
        // SAFETY: the driver gave a static string.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        assert_eq!(name, c"CUDA_ERROR_OUT_OF_MEMORY");
        let mut none: *const std::ffi::c_char = name.as_ptr();
        assert_eq!(cu.cuGetErrorName(12345, &mut none), code::INVALID_VALUE);
        assert!(none.is_null());
    });
}

#[test]
fn calls_need_a_context() {
    in_child("contexts::calls_need_a_context", &[], |fake| {
        let cu = &fake.cu;
        assert_eq!(cu.cuInit(0), code::OK);
        let (mut a, mut b, mut addr, mut handle) = (0, 0, 0, 0);
        let (mut stream, mut device, mut id) = (0, 0, 0);
        let none = code::INVALID_CONTEXT;
        assert_eq!(cu.cuMemGetInfo_v2(&mut a, &mut b), none);
        assert_eq!(cu.cuMemAlloc_v2(&mut addr, 64), none);
        assert_eq!(cu.cuStreamCreate(&mut stream, 0), none);
        assert_eq!(cu.cuEventCreate(&mut stream, 2), none);
        assert_eq!(cu.cuCtxGetDevice(&mut device), none);
        assert_eq!(cu.cuCtxSynchronize(), none);
        assert_eq!(cu.cuCtxPopCurrent_v2(&mut stream), none);
        assert_eq!(cu.cuStreamGetId(0, &mut id), none);
        fake.set("vmm_needs_context", 1);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, PAGE, 0, 0, 0), none);
        assert_eq!(cu.cuMemCreate(&mut handle, PAGE, &Prop::device(0), 0), none);
        fake.set("vmm_needs_context", 0);
        assert_eq!(cu.cuMemRelease(cu.create(PAGE)), code::OK);
        assert_eq!(cu.cuMemAddressReserve(&mut addr, PAGE, 0, 0, 0), code::OK);
        assert_eq!(fake.contexts_created(0), 0, "no call made a context");
        let context = cu.start(0);
        let stream = cu.stream(true);
        assert_eq!(cu.cuCtxSetCurrent(0), code::OK);
        fake.set("stream_needs_context", 1);
        assert_eq!(cu.cuStreamQuery(stream), none);
        fake.set("stream_needs_context", 0);
        for (handle, got) in [(stream, code::OK), (0, none), (2, none)] {
            assert_eq!(cu.cuStreamGetId(handle, &mut id), got, "the id of {handle}");
            assert_eq!(cu.cuMemsetD8Async(0, 0, 0, handle), got, "a fill on {handle}");
            assert_eq!(cu.cuStreamQuery(handle), got, "a query of {handle}");
        }
        assert_eq!(cu.cuCtxSetCurrent(context), code::OK);
    });
}

#[test]
fn primary_contexts_are_counted() {
    in_child("contexts::primary_contexts_are_counted", &[("FAKECUDA_DEVICES", "2")], |fake| {
        let cu = &fake.cu;
        let context = cu.start(0);
        let (mut again, mut flags, mut active, mut id, mut next) = (0, 0, 0, 0, 0);
        assert_eq!(cu.cuDevicePrimaryCtxRetain(&mut again, 0), code::OK);
        assert_eq!(again, context);
        assert_eq!((fake.contexts_created(0), fake.contexts_created(1)), (1, 0));
        assert_eq!(cu.cuDevicePrimaryCtxGetState(1, &mut flags, &mut active), code::OK);
        assert_eq!(active, 0);
        assert_eq!(cu.cuCtxGetId(0, &mut id), code::OK);
        let stream = cu.stream(false);
        assert_eq!(cu.cuDevicePrimaryCtxRelease_v2(0), code::OK);
        assert_eq!(cu.cuStreamQuery(stream), code::OK, "one reference is left");
        assert_eq!(cu.cuDevicePrimaryCtxRelease_v2(0), code::OK);
        assert_eq!(cu.cuStreamQuery(stream), code::CONTEXT_IS_DESTROYED);
        assert_eq!(cu.cuDevicePrimaryCtxRelease_v2(0), code::INVALID_CONTEXT, "too often");
        assert_eq!(cu.cuDevicePrimaryCtxRetain(&mut again, 7), code::INVALID_DEVICE);
        assert_eq!(cu.cuDevicePrimaryCtxRetain(&mut again, 0), code::OK);
        assert_eq!(cu.cuCtxGetId(context, &mut next), code::OK);
        assert_ne!(id, next, "a new context");
        assert_eq!(cu.cuStreamQuery(stream), code::INVALID_HANDLE, "its streams are gone");
        assert_eq!(fake.contexts_created(0), 2);
    });
}

#[test]
fn threads_have_their_own_stack() {
    in_child("contexts::threads_have_their_own_stack", &[("FAKECUDA_DEVICES", "2")], |fake| {
        let cu = &fake.cu;
        let first = cu.start(0);
        let (mut second, mut popped, mut device) = (0, 0, 9);
        assert_eq!(cu.cuDevicePrimaryCtxRetain(&mut second, 1), code::OK);
        assert_eq!(cu.cuCtxPushCurrent_v2(second), code::OK);
        assert_eq!(fake.context_depth(), 2);
        assert_eq!(cu.cuCtxGetDevice(&mut device), code::OK);
        assert_eq!(device, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut here = 1;
                assert_eq!(cu.cuCtxGetCurrent(&mut here), code::OK);
                assert_eq!(here, 0);
            });
        });
        assert_eq!(cu.cuCtxPopCurrent_v2(&mut popped), code::OK);
        assert_eq!(popped, second);
        assert_eq!(cu.cuCtxGetCurrent(&mut popped), code::OK);
        assert_eq!(popped, first);
        assert_eq!(cu.cuCtxSetCurrent(4711), code::INVALID_CONTEXT);
        let mut own = 0;
        assert_eq!(cu.cuCtxCreate_v2(&mut own, 0, 1), code::OK);
        assert_eq!(fake.context_depth(), 2);
        assert_eq!(cu.cuCtxDestroy_v2(first), code::INVALID_CONTEXT, "a primary context");
        assert_eq!(cu.cuCtxDestroy_v2(own), code::OK);
        assert_eq!(fake.context_depth(), 1);
    });
}

#[test]
fn a_driver_can_fail_to_start() {
    let env = [("FAKECUDA_INIT", "999")];
    in_child("contexts::a_driver_can_fail_to_start", &env, |fake| {
        let mut count = 0;
        assert_eq!(fake.cu.cuInit(0), 999);
        assert_eq!(fake.cu.cuDeviceGetCount(&mut count), code::NOT_INITIALIZED);
        fake.set("init", 0);
        assert_eq!(fake.cu.cuInit(0), code::OK);
    });
}

#[test]
fn a_machine_can_have_no_device() {
    let env = [("FAKECUDA_DEVICES", "0")];
    in_child("contexts::a_machine_can_have_no_device", &env, |fake| {
        assert_eq!(fake.cu.cuInit(0), code::NO_DEVICE);
    });
}

#[test]
fn functions_are_found_by_version() {
    let env = [("FAKECUDA_MISSING", "cuMemMap"), ("FAKECUDA_VERSION", "12090")];
    in_child("contexts::functions_are_found_by_version", &env, |fake| {
        let cu = &fake.cu;
        let find = |name: &std::ffi::CStr, version: i32| {
            let (mut address, mut status) = (std::ptr::null_mut(), 9);
            let got = cu.cuGetProcAddress_v2(name.as_ptr(), &mut address, version, 0, &mut status);
            (got, status, address)
        };
        let symbol = |name: &str| fake.library.symbol(name);
        assert_eq!(find(c"cuMemAlloc", 12000), (code::OK, 0, symbol("cuMemAlloc_v2")));
        let info = c"cuStreamGetCaptureInfo";
        assert_eq!(find(info, 12030), (code::OK, 0, symbol("cuStreamGetCaptureInfo_v3")));
        assert_eq!(find(info, 12000), (code::OK, 0, symbol("cuStreamGetCaptureInfo_v2")));
        assert_eq!(find(info, 10000), (code::OK, 2, std::ptr::null_mut()));
        assert_eq!(find(c"cuMemMap", 12000), (code::OK, 1, std::ptr::null_mut()));
        assert_eq!(find(c"cuNothing", 12000), (code::OK, 1, std::ptr::null_mut()));
        assert_eq!(find(c"cuMemAlloc", 13000).0, code::INVALID_VALUE, "newer than the driver");
    });
}
