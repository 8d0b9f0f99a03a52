//! A backend as a program would give it: C functions over plain system calls.

use std::collections::BTreeMap;
use std::ffi::c_void;

use cenote::device::vtable::cenote_backend_vtable;
use parking_lot::Mutex;

const PAGE: u64 = 64 << 10;
const INVALID: i32 = 22;
const NO_MEMORY: i32 = 12;

/// What the "driver" knows; one a table, leaked like a driver's own state.
#[derive(Default)]
struct State {
    total: u64,
    used: u64,
    next: u64,
    /// Reservations, mappings (with the handle) and handles (with the file and the mappings).
    reservations: BTreeMap<u64, u64>,
    mappings: BTreeMap<u64, (u64, u64)>,
    handles: BTreeMap<u64, Handle>,
    /// Events with whether they are pending; a query completes them.
    events: BTreeMap<u64, bool>,
}

struct Handle {
    fd: i32,
    size: u64,
    mapped: u32,
    released: bool,
}

type Shared = Mutex<State>;

fn state<'a>(user: *mut c_void) -> &'a Shared {
    // SAFETY: `table` put a leaked `Shared` there.
    unsafe { &*user.cast::<Shared>() }
}

/// The table; `asynchronous` gives it events that complete at the second question.
pub fn table(total: u64, asynchronous: bool) -> cenote_backend_vtable {
    let shared: &'static Shared =
        Box::leak(Box::new(Mutex::new(State { total, ..State::default() })));
    cenote_backend_vtable {
        struct_size: size_of::<cenote_backend_vtable>() as u32,
        device_count: 1,
        page_bytes: PAGE,
        total_bytes: total,
        host_visible: 1,
        asynchronous: asynchronous.into(),
        user: (&raw const *shared).cast_mut().cast(),
        reserve: Some(reserve),
        unreserve: Some(unreserve),
        create: Some(create),
        release: Some(release),
        map: Some(map),
        unmap: Some(unmap),
        mem_info: asynchronous.then_some(mem_info),
        event_create: asynchronous.then_some(event_create),
        event_destroy: asynchronous.then_some(event_destroy),
        event_record: asynchronous.then_some(event_record),
        event_query: asynchronous.then_some(event_query),
        synchronize: asynchronous.then_some(synchronize),
    }
}

fn mmap(addr: u64, size: u64, protection: i32, flags: i32, fd: i32) -> Option<u64> {
    // SAFETY: either a new range of the kernel's choice or one that this driver reserved.
    let at = unsafe { libc::mmap(addr as *mut c_void, size as usize, protection, flags, fd, 0) };
    (at != libc::MAP_FAILED).then_some(at as u64)
}

const EMPTY: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

unsafe extern "C" fn reserve(
    user: *mut c_void,
    _device: u32,
    size: u64,
    align: u64,
    addr: *mut u64,
) -> i32 {
    let Some(longer) = size.checked_add(align) else { return INVALID };
    let Some(at) = mmap(0, longer, libc::PROT_NONE, EMPTY, -1) else { return NO_MEMORY };
    // The ends that alignment costs stay reserved: this driver is simple.
    let base = at.next_multiple_of(align);
    state(user).lock().reservations.insert(base, size);
    // SAFETY: the out-pointer is valid by the contract of the table.
    unsafe { addr.write(base) };
    0
}

unsafe extern "C" fn unreserve(user: *mut c_void, _device: u32, addr: u64, size: u64) -> i32 {
    let mut state = state(user).lock();
    if state.reservations.get(&addr) != Some(&size) {
        return INVALID;
    }
    state.reservations.remove(&addr);
    // SAFETY: the range was reserved by this driver and nothing is mapped in it.
    unsafe { libc::munmap(addr as *mut c_void, size as usize) }
}

unsafe extern "C" fn create(user: *mut c_void, _device: u32, size: u64, handle: *mut u64) -> i32 {
    let mut state = state(user).lock();
    if state.used + size > state.total {
        return NO_MEMORY;
    }
    // SAFETY: the name is a constant; the results are checked.
    let fd = unsafe { libc::memfd_create(c"table".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: a wrong descriptor is refused by the system.
    if fd < 0 || unsafe { libc::ftruncate(fd, size as i64) } != 0 {
        return NO_MEMORY;
    }
    state.used += size;
    state.next += 1;
    let number = state.next;
    state.handles.insert(number, Handle { fd, size, mapped: 0, released: false });
    // SAFETY: the out-pointer is valid by the contract of the table.
    unsafe { handle.write(number) };
    0
}

fn forget_if_unused(state: &mut State, number: u64) {
    let unused = state.handles.get(&number).is_some_and(|h| h.released && h.mapped == 0);
    if !unused {
        return;
    }
    if let Some(handle) = state.handles.remove(&number) {
        state.used -= handle.size;
        // SAFETY: the descriptor is this driver's own.
        unsafe { libc::close(handle.fd) };
    }
}

unsafe extern "C" fn release(user: *mut c_void, _device: u32, number: u64, size: u64) -> i32 {
    let mut state = state(user).lock();
    match state.handles.get_mut(&number) {
        Some(handle) if !handle.released && handle.size == size => handle.released = true,
        _ => return INVALID,
    }
    forget_if_unused(&mut state, number);
    0
}

unsafe extern "C" fn map(
    user: *mut c_void,
    _device: u32,
    addr: u64,
    size: u64,
    number: u64,
) -> i32 {
    let mut state = state(user).lock();
    let inside = state
        .reservations
        .range(..=addr)
        .next_back()
        .is_some_and(|(base, length)| addr + size <= base + length);
    let taken = state
        .mappings
        .range(..addr + size)
        .next_back()
        .is_some_and(|(start, (length, _))| start + length > addr);
    let Some(handle) = state.handles.get_mut(&number) else { return INVALID };
    if !inside || taken || handle.released || handle.size != size {
        return INVALID;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    if mmap(addr, size, protection, libc::MAP_SHARED | libc::MAP_FIXED, handle.fd).is_none() {
        return NO_MEMORY;
    }
    handle.mapped += 1;
    state.mappings.insert(addr, (size, number));
    0
}

unsafe extern "C" fn unmap(user: *mut c_void, _device: u32, addr: u64, size: u64) -> i32 {
    let mut state = state(user).lock();
    let Some(&(length, number)) = state.mappings.get(&addr) else { return INVALID };
    if length != size || mmap(addr, size, libc::PROT_NONE, EMPTY | libc::MAP_FIXED, -1).is_none() {
        return INVALID;
    }
    state.mappings.remove(&addr);
    if let Some(handle) = state.handles.get_mut(&number) {
        handle.mapped -= 1;
    }
    forget_if_unused(&mut state, number);
    0
}

unsafe extern "C" fn mem_info(
    user: *mut c_void,
    _device: u32,
    free: *mut u64,
    total: *mut u64,
) -> i32 {
    let state = state(user).lock();
    // SAFETY: the out-pointers are valid by the contract of the table.
    unsafe {
        free.write(state.total - state.used);
        total.write(state.total);
    }
    0
}

unsafe extern "C" fn event_create(user: *mut c_void, _device: u32, event: *mut u64) -> i32 {
    let mut state = state(user).lock();
    state.next += 1;
    let number = state.next;
    state.events.insert(number, false);
    // SAFETY: the out-pointer is valid by the contract of the table.
    unsafe { event.write(number) };
    0
}

unsafe extern "C" fn event_destroy(user: *mut c_void, _device: u32, event: u64) -> i32 {
    match state(user).lock().events.remove(&event) {
        Some(_) => 0,
        None => INVALID,
    }
}

unsafe extern "C" fn event_record(
    user: *mut c_void,
    _device: u32,
    event: u64,
    _stream: u64,
) -> i32 {
    match state(user).lock().events.get_mut(&event) {
        Some(pending) => *pending = true,
        None => return INVALID,
    }
    0
}

unsafe extern "C" fn event_query(
    user: *mut c_void,
    _device: u32,
    event: u64,
    done: *mut u32,
) -> i32 {
    match state(user).lock().events.get_mut(&event) {
        // SAFETY: the out-pointer is valid by the contract of the table.
        Some(pending) => unsafe { done.write((!std::mem::take(pending)).into()) },
        None => return INVALID,
    }
    0
}

unsafe extern "C" fn synchronize(user: *mut c_void, _device: u32) -> i32 {
    state(user).lock().events.values_mut().for_each(|pending| *pending = false);
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote::base::Status;
    use cenote::device::vtable::Vtable;

    fn refusal(change: impl FnOnce(&mut cenote_backend_vtable)) -> Status {
        let mut table = table(1 << 20, true);
        change(&mut table);
        Vtable::new(table).map(|_| ()).unwrap_err().status
    }

    #[test]
    fn a_table_that_cannot_serve_is_refused() {
        assert!(Vtable::new(table(1 << 20, false)).is_ok());
        assert_eq!(refusal(|t| t.device_count = 0), Status::E_ARGUMENT);
        assert_eq!(refusal(|t| t.device_count = 65), Status::E_ARGUMENT);
        assert_eq!(refusal(|t| t.page_bytes = 2048), Status::E_ARGUMENT);
        assert_eq!(refusal(|t| t.page_bytes = 12288), Status::E_ARGUMENT);
        assert_eq!(refusal(|t| t.total_bytes = 0), Status::E_ARGUMENT);
        assert_eq!(refusal(|t| t.host_visible = 2), Status::E_ARGUMENT);
        assert_eq!(refusal(|t| t.asynchronous = 2), Status::E_ARGUMENT);
        assert_eq!(refusal(|t| t.map = None), Status::E_NULL);
        assert_eq!(refusal(|t| t.create = None), Status::E_NULL);
        assert_eq!(refusal(|t| t.event_query = None), Status::E_NULL);
    }

    unsafe extern "C" fn crooked(
        _user: *mut c_void,
        _device: u32,
        _size: u64,
        _align: u64,
        addr: *mut u64,
    ) -> i32 {
        // SAFETY: the out-pointer is valid by the contract of the table.
        unsafe { addr.write(4097) };
        0
    }

    #[test]
    fn what_the_functions_return_is_checked() {
        use cenote::device::Backend;
        let mut table = table(1 << 20, false);
        table.reserve = Some(crooked);
        let vtable = Vtable::new(table).unwrap();
        assert_eq!(vtable.reserve(0, PAGE, 0).unwrap_err().status, Status::E_DRIVER);
        let error = vtable.create(0, 2 << 20).unwrap_err();
        assert_eq!((error.status, error.backend_code), (Status::E_OUT_OF_MEMORY, NO_MEMORY));
    }
}
