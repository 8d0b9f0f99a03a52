//! Start, devices, error texts and the search for functions.

use std::ffi::{c_char, c_void};

use crate::abi::{self, code, Code, Out, Res, CODES};
use crate::function::{self, Found, Fun};
use crate::gate::{self, call, Need};
use crate::state::State;

/// Attributes that are not 0. Values as a data-centre GPU of compute capability 9.0 gives them.
static ATTRIBUTES: &[(i32, i32)] = &[
    (1, 1024), // threads a block
    (10, 32),  // warp
    (16, 132), // multiprocessors
    (19, 1),   // can map host memory
    (31, 1),   // concurrent kernels
    (41, 1),   // unified addressing
    (75, 9),   // compute capability, major
    (76, 0),   // compute capability, minor
    (78, 1),   // stream priorities
    (83, 1),   // managed memory
    (89, 1),   // concurrent managed access
    (91, 1),   // host pointer usable for registered memory
    (102, 1),  // virtual memory management
    (103, 1),  // POSIX file descriptors
    (110, 1),  // RDMA with virtual memory management
    (115, 1),  // memory pools
    (116, 1),  // RDMA
    (119, 1),  // pool handle types
    (120, 1),  // cluster launch
    (141, 1),  // host NUMA memory
];
const LAST_ATTRIBUTE: i32 = 148;
const PCI_DEVICE: i32 = 34;
const PCI_BUS: i32 = 33;

impl State {
    /// Value of a device attribute; none if there is no such attribute.
    pub fn attribute(&self, device: usize, attribute: i32) -> Option<i32> {
        if !(1..=LAST_ATTRIBUTE).contains(&attribute) {
            return None;
        }
        let given = self.opts.attributes.iter().rev().chain(ATTRIBUTES);
        let found = given.filter(|(name, _)| *name == attribute).map(|(_, value)| *value).next();
        Some(found.unwrap_or(match attribute {
            PCI_BUS => device as i32 + 1,
            PCI_DEVICE => 0,
            _ => 0,
        }))
    }

    fn uuid(&self, device: usize) -> [u8; 16] {
        let mut bytes = *b"fakecuda-gpu-\0\0\0";
        bytes[15] = device as u8;
        bytes
    }
}

#[no_mangle]
pub extern "C" fn cuInit(flags: u32) -> Code {
    call(Fun::cuInit, Need::Nothing, [u64::from(flags), 0, 0], |st| {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        if st.opts.init_code != 0 {
            return Err(st.opts.init_code);
        }
        if st.contexts.devices() == 0 {
            return Err(code::NO_DEVICE);
        }
        st.ready = true;
        gate::register_process_hooks();
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn cuDriverGetVersion(version: Out<i32>) -> Code {
    call(Fun::cuDriverGetVersion, Need::Nothing, [0; 3], |st| version.put(st.opts.version))
}

#[no_mangle]
pub extern "C" fn cuDeviceGet(device: Out<i32>, ordinal: i32) -> Code {
    call(Fun::cuDeviceGet, Need::Init, [ordinal as u64, 0, 0], |st| {
        st.device(ordinal)?;
        device.put(ordinal)
    })
}

#[no_mangle]
pub extern "C" fn cuDeviceGetCount(count: Out<i32>) -> Code {
    call(Fun::cuDeviceGetCount, Need::Init, [0; 3], |st| count.put(st.contexts.devices() as i32))
}

#[no_mangle]
pub extern "C" fn cuDeviceGetName(name: *mut c_char, len: i32, device: i32) -> Code {
    call(Fun::cuDeviceGetName, Need::Init, [0, len as u64, device as u64], |st| {
        let index = st.device(device)?;
        let len = usize::try_from(len).map_err(|_| code::INVALID_VALUE)?;
        abi::put_text(name, len, &format!("Fake GPU {index}"))
    })
}

#[no_mangle]
pub extern "C" fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) -> Code {
    call(Fun::cuDeviceGetUuid, Need::Init, [0, device as u64, 0], |st| {
        let index = st.device(device)?;
        uuid.put(st.uuid(index))
    })
}

#[no_mangle]
pub extern "C" fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) -> Code {
    call(Fun::cuDeviceGetUuid_v2, Need::Init, [0, device as u64, 0], |st| {
        let index = st.device(device)?;
        uuid.put(st.uuid(index))
    })
}

#[no_mangle]
pub extern "C" fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) -> Code {
    call(Fun::cuDeviceTotalMem_v2, Need::Init, [0, device as u64, 0], |st| {
        let index = st.device(device)?;
        bytes.put(st.memory.devices[index].total as usize)
    })
}

#[no_mangle]
pub extern "C" fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) -> Code {
    let args = [0, attribute as u64, device as u64];
    call(Fun::cuDeviceGetAttribute, Need::Init, args, |st| {
        let index = st.device(device)?;
        value.put(st.attribute(index, attribute).ok_or(code::INVALID_VALUE)?)
    })
}

#[no_mangle]
pub extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: i32, device: i32) -> Code {
    call(Fun::cuDeviceGetPCIBusId, Need::Init, [0, len as u64, device as u64], |st| {
        let index = st.device(device)?;
        let len = usize::try_from(len).map_err(|_| code::INVALID_VALUE)?;
        abi::put_text(id, len, &format!("0000:{:02X}:00.0", index + 1))
    })
}

fn find_text(error: Code, out: &Out<*const c_char>, description: bool) -> Res {
    match CODES.iter().find(|entry| entry.0 == error) {
        Some((_, name, says)) => {
            let text = if description { says } else { name };
            out.put(text.as_ptr().cast())
        }
        None => {
            out.put(std::ptr::null())?;
            Err(code::INVALID_VALUE)
        }
    }
}

#[no_mangle]
pub extern "C" fn cuGetErrorName(error: Code, text: Out<*const c_char>) -> Code {
    call(Fun::cuGetErrorName, Need::Nothing, [u64::from(error), 0, 0], |_| {
        find_text(error, &text, false)
    })
}

#[no_mangle]
pub extern "C" fn cuGetErrorString(error: Code, text: Out<*const c_char>) -> Code {
    call(Fun::cuGetErrorString, Need::Nothing, [u64::from(error), 0, 0], |_| {
        find_text(error, &text, true)
    })
}

#[no_mangle]
pub extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: Out<*const c_void>,
    version: i32,
    flags: u64,
    status: Out<u32>,
) -> Code {
    let args = [symbol as u64, version as u64, flags];
    call(Fun::cuGetProcAddress_v2, Need::Nothing, args, |st| {
        let base = abi::text(symbol)?;
        function.required()?;
        if flags > 2 || version > st.opts.version {
            return Err(code::INVALID_VALUE);
        }
        let missing = st.opts.missing.contains(&base);
        let found = if missing { Found::No } else { function::find(&base, version as u32) };
        let (address, state) = match found {
            Found::Yes(address) => (address, 0),
            Found::No => (std::ptr::null(), 1),
            Found::TooNew => (std::ptr::null(), 2),
        };
        status.put_if(state);
        function.put(address)
    })
}
