//! Virtual memory management: addresses, physical memory, mappings and access, with the driver's
//! rules. Pages really are mapped, so that aliases share bytes and unmapped addresses fault.

use std::os::fd::AsRawFd;

use crate::abi::{code, AccessDesc, AllocProp, Location, Res};
use crate::memory::{Handle, Mapping, Phys, Reservation, HOST_BIT};
use crate::phys::{Piece, Record, PAGE_BYTES};
use crate::state::State;

const HOST_PAGE: u64 = 4096;
const LOCATION_DEVICE: u32 = 1;
const LOCATION_HOST_NUMA: u32 = 3;
const POSIX_FD: u32 = 1;
const FABRIC: u32 = 8;
/// Handles are numbers far from any address.
const HANDLE_TAG: u64 = 0xca1_0000_0000_0000;

const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn multiple(value: u64, of: u64) -> Res {
    if !value.is_multiple_of(of) {
        return Err(code::INVALID_VALUE);
    }
    Ok(())
}

/// A range that is not empty, in whole pages, and does not wrap.
fn page_range(addr: u64, size: u64) -> Res {
    multiple(addr, PAGE_BYTES)?;
    multiple(size, PAGE_BYTES)?;
    if size == 0 || addr.checked_add(size).is_none() {
        return Err(code::INVALID_VALUE);
    }
    Ok(())
}

fn protect(addr: u64, size: u64, protection: i32) -> Res {
    // SAFETY: the range lies in a reservation of ours; the program's promise that nothing uses
    // it is the same that the real driver relies on.
    let failed = unsafe { libc::mprotect(addr as *mut _, size as usize, protection) };
    if failed != 0 {
        return Err(code::OPERATING_SYSTEM);
    }
    Ok(())
}

impl State {
    fn check_location(&self, location: Location) -> Res {
        match location.kind {
            LOCATION_DEVICE => self.device(location.id).map(|_| ()),
            LOCATION_HOST_NUMA if location.id == 0 => Ok(()),
            _ => Err(code::INVALID_VALUE),
        }
    }

    /// Check what physical memory shall be like.
    pub fn check_prop(&self, prop: &AllocProp) -> Res {
        if prop.kind != 1 || prop.reserved != [0; 4] || prop.compression > 1 || prop.rdma > 1 {
            return Err(code::INVALID_VALUE);
        }
        if prop.handle_types & FABRIC != 0 {
            return Err(code::NOT_PERMITTED);
        }
        if prop.handle_types & !POSIX_FD != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        self.check_location(prop.location)?;
        let device = if prop.location.kind == LOCATION_DEVICE { prop.location.id } else { 0 };
        let has = |attribute| self.attribute(device as usize, attribute) == Some(1);
        let rdma_missing = prop.rdma != 0 && !has(110);
        let fd_missing = prop.handle_types != 0 && !has(103);
        if !has(102) || rdma_missing || fd_missing {
            return Err(code::NOT_SUPPORTED);
        }
        Ok(())
    }

    /// Reserve addresses.
    pub fn vmm_reserve(&mut self, size: u64, align: u64, hint: u64, flags: u64) -> Res<u64> {
        multiple(size, HOST_PAGE)?;
        multiple(hint, HOST_PAGE)?;
        if size == 0 || flags != 0 || (align != 0 && !align.is_power_of_two()) {
            return Err(code::INVALID_VALUE);
        }
        let align = align.max(PAGE_BYTES);
        let room = self.opts.reserve_limit_bytes.saturating_sub(self.memory.reserved_bytes);
        let padded = size.checked_add(align).ok_or(code::OUT_OF_MEMORY)?;
        if size > room || padded > 1 << 47 {
            return Err(code::OUT_OF_MEMORY);
        }
        let addr = reserve_aligned(size, padded, align, hint)?;
        self.memory.reserved_bytes += size;
        let range = Reservation { size, maps: Default::default() };
        self.memory.reservations.insert(addr, range);
        Ok(addr)
    }

    /// Give a whole reservation back.
    pub fn vmm_unreserve(&mut self, addr: u64, size: u64) -> Res {
        let range = self.memory.reservations.get(&addr).ok_or(code::INVALID_VALUE)?;
        if range.size != size || !range.maps.is_empty() {
            return Err(code::INVALID_VALUE);
        }
        self.memory.reservations.remove(&addr);
        self.memory.reserved_bytes -= size;
        // SAFETY: the whole mapping that `vmm_reserve` made, with nothing of the program in it.
        unsafe { libc::munmap(addr as *mut _, size as usize) };
        Ok(())
    }

    /// Create physical memory.
    pub fn vmm_create(&mut self, size: u64, prop: &AllocProp, flags: u64) -> Res<u64> {
        multiple(size, PAGE_BYTES)?;
        if size == 0 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        self.check_prop(prop)?;
        let on_device = prop.location.kind == LOCATION_DEVICE;
        let piece = if on_device {
            let device = prop.location.id as usize;
            if size > self.memory.free_bytes(device) {
                return Err(code::OUT_OF_MEMORY);
            }
            let piece = self.memory.devices[device].store.take(size)?;
            self.memory.devices[device].used += size;
            piece
        } else {
            self.memory.host_store.take(size)?
        };
        Ok(self.add_phys(piece, size, *prop, on_device))
    }

    fn add_phys(&mut self, piece: Piece, size: u64, prop: AllocProp, counted: bool) -> u64 {
        let number = self.memory.number();
        let handle = HANDLE_TAG + number;
        let phys = Phys { piece, size, prop, refs: 1, maps: 0, shared: false, counted, handle };
        self.memory.phys.insert(number, phys);
        self.memory.handles.insert(handle, Handle { phys: number, refs: 1 });
        handle
    }

    /// Number of a live handle's physical memory; use of a dead one is noted.
    fn phys_of(&mut self, handle: u64) -> Res<u64> {
        if let Some(known) = self.memory.handles.get(&handle) {
            return Ok(known.phys);
        }
        if handle > HANDLE_TAG && handle <= HANDLE_TAG + self.memory.last_number {
            self.violation(format!("memory handle {handle:#x} was used after its release"));
        }
        Err(code::INVALID_VALUE)
    }

    /// Drop a reference to a handle.
    pub fn vmm_release(&mut self, handle: u64) -> Res {
        let number = self.phys_of(handle)?;
        if let Some(known) = self.memory.handles.get_mut(&handle) {
            known.refs -= 1;
            if known.refs == 0 {
                self.memory.handles.remove(&handle);
            }
        }
        if let Some(phys) = self.memory.phys.get_mut(&number) {
            phys.refs -= 1;
        }
        self.drop_dead_phys(number);
        Ok(())
    }

    fn drop_dead_phys(&mut self, number: u64) {
        let dead = self.memory.phys.get(&number).is_some_and(|p| p.refs == 0 && p.maps == 0);
        let Some(phys) = dead.then(|| self.memory.phys.remove(&number)).flatten() else { return };
        if phys.counted {
            self.memory.devices[phys.prop.location.id as usize].used -= phys.size;
        }
        if !phys.shared {
            phys.piece.punch(phys.size);
        }
    }

    /// Another reference to the memory mapped at an address.
    pub fn vmm_retain(&mut self, addr: u64) -> Res<u64> {
        let (_, range) = self.memory.reservation_at(addr).ok_or(code::INVALID_VALUE)?;
        let (_, map) = range.mapping_at(addr).ok_or(code::INVALID_VALUE)?;
        let number = map.phys;
        let phys = self.memory.phys.get_mut(&number).ok_or(code::INVALID_VALUE)?;
        phys.refs += 1;
        let handle = phys.handle;
        let known = self.memory.handles.entry(handle).or_insert(Handle { phys: number, refs: 0 });
        known.refs += 1;
        Ok(handle)
    }

    /// Map a whole handle where nothing is mapped. The real driver also maps across the end of a
    /// reservation, onto addresses that the next one may get: never what we mean, so refused here.
    pub fn vmm_map(&mut self, addr: u64, size: u64, offset: u64, handle: u64, flags: u64) -> Res {
        page_range(addr, size)?;
        if offset != 0 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let number = self.phys_of(handle)?;
        let (file, at) = match self.memory.phys.get(&number) {
            Some(phys) if phys.size == size => (phys.piece.file.as_raw_fd(), phys.piece.offset),
            Some(_) => return Err(code::NOT_SUPPORTED),
            None => return Err(code::INVALID_VALUE),
        };
        let (_, range) = self.memory.reservation_of(addr, size).ok_or(code::INVALID_VALUE)?;
        if !range.is_unmapped(addr, size) {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the range lies in a reservation of ours with nothing mapped.
        let got = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            libc::mmap(addr as *mut _, size as usize, libc::PROT_NONE, flags, file, at as i64)
        };
        if got == libc::MAP_FAILED {
            self.violation("the host has no room for another mapping".to_owned());
            return Err(code::MAP_FAILED);
        }
        range.maps.insert(addr, Mapping { size, phys: number, readers: 0, writers: 0 });
        if let Some(phys) = self.memory.phys.get_mut(&number) {
            phys.maps += 1;
        }
        Ok(())
    }

    /// Unmap whole mappings. Work that still uses them is a violation, and not waited for. The real
    /// driver refuses parts of a mapping only, and takes a range with gaps or with nothing in it:
    /// for us that is a mistake in the books, so it is refused here.
    pub fn vmm_unmap(&mut self, addr: u64, size: u64) -> Res {
        page_range(addr, size)?;
        let (_, range) = self.memory.reservation_of(addr, size).ok_or(code::INVALID_VALUE)?;
        if !range.is_whole(addr, size) {
            return Err(code::INVALID_VALUE);
        }
        let gone: Vec<(u64, u64)> =
            range.maps.range(addr..addr + size).map(|(start, map)| (*start, map.phys)).collect();
        for (start, _) in &gone {
            range.maps.remove(start);
        }
        // SAFETY: replaces mappings of ours by inaccessible addresses that stay reserved.
        unsafe {
            let flags = ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(addr as *mut _, size as usize, libc::PROT_NONE, flags, -1, 0);
        }
        if self.memory.in_use(addr, size) {
            self.violation(format!("{addr:#x}+{size:#x} was unmapped while queued work uses it"));
        }
        for (_, number) in gone {
            if let Some(phys) = self.memory.phys.get_mut(&number) {
                phys.maps -= 1;
            }
            self.drop_dead_phys(number);
        }
        Ok(())
    }

    fn access_bit(&self, desc: &AccessDesc) -> Res<u32> {
        if !matches!(desc.flags, 0 | 1 | 3) {
            return Err(code::INVALID_VALUE);
        }
        self.check_location(desc.location)?;
        Ok(if desc.location.kind == LOCATION_DEVICE { 1 << desc.location.id } else { HOST_BIT })
    }

    /// Set who may use a range of whole mappings.
    pub fn vmm_set_access(&mut self, addr: u64, size: u64, descs: &[AccessDesc]) -> Res {
        page_range(addr, size)?;
        let bits: Vec<u32> = descs.iter().map(|desc| self.access_bit(desc)).collect::<Res<_>>()?;
        let host_too = bits.contains(&HOST_BIT);
        let visible = self.opts.host_access;
        let (_, range) = self.memory.reservation_of(addr, size).ok_or(code::INVALID_VALUE)?;
        if descs.is_empty() || !range.is_whole(addr, size) {
            return Err(code::INVALID_VALUE);
        }
        let phys: Vec<u64> = range.maps.range(addr..addr + size).map(|(_, m)| m.phys).collect();
        let on_host = |n: &u64| self.memory.phys[n].prop.location.kind == LOCATION_HOST_NUMA;
        if host_too && !phys.iter().all(on_host) {
            return Err(code::INVALID_VALUE);
        }
        let (_, range) = self.memory.reservation_of(addr, size).ok_or(code::INVALID_VALUE)?;
        let (mut readers, mut writers) = (0, 0);
        for (_, map) in range.maps.range_mut(addr..addr + size) {
            for (desc, bit) in descs.iter().zip(&bits) {
                map.readers = if desc.flags == 0 { map.readers & !bit } else { map.readers | bit };
                map.writers = if desc.flags == 3 { map.writers | bit } else { map.writers & !bit };
            }
            readers |= map.readers;
            writers |= map.writers;
        }
        let seen = if visible { u32::MAX } else { HOST_BIT };
        let protection = match (readers & seen, writers & seen) {
            (0, _) => libc::PROT_NONE,
            (_, 0) => libc::PROT_READ,
            _ => libc::PROT_READ | libc::PROT_WRITE,
        };
        protect(addr, size, protection)
    }

    /// Access flags of a location at an address.
    pub fn vmm_get_access(&self, addr: u64, location: Location) -> Res<u64> {
        let bit = self.access_bit(&AccessDesc { location, flags: 0 })?;
        let (_, range) = self.memory.reservation_at(addr).ok_or(code::INVALID_VALUE)?;
        let (_, map) = range.mapping_at(addr).ok_or(code::INVALID_VALUE)?;
        Ok(if map.writers & bit != 0 { 3 } else { u64::from(map.readers & bit != 0) })
    }

    /// What a handle's memory was created with.
    pub fn vmm_prop(&mut self, handle: u64) -> Res<AllocProp> {
        let number = self.phys_of(handle)?;
        self.memory.phys.get(&number).map(|phys| phys.prop).ok_or(code::INVALID_VALUE)
    }

    /// Export a handle as a file descriptor.
    pub fn vmm_export(&mut self, handle: u64, kind: u32, flags: u64) -> Res<i32> {
        let number = self.phys_of(handle)?;
        let phys = self.memory.phys.get_mut(&number).ok_or(code::INVALID_VALUE)?;
        if kind != POSIX_FD || flags != 0 || phys.prop.handle_types & kind == 0 {
            return Err(code::INVALID_VALUE);
        }
        let Location { kind, id } = phys.prop.location;
        let location = u64::from(kind) << 32 | id as u64;
        let fd = phys.piece.export(Record { size: phys.size, location })?;
        phys.shared = true;
        Ok(fd)
    }

    /// Import a file descriptor from this or another process.
    pub fn vmm_import(&mut self, fd: i32, kind: u32) -> Res<u64> {
        if kind != POSIX_FD {
            return Err(code::NOT_SUPPORTED);
        }
        let (piece, record) = Piece::import(fd)?;
        let own = self.memory.phys.iter().find(|(_, phys)| phys.piece.same(&piece));
        if let Some((&number, _)) = own {
            let handle = HANDLE_TAG + self.memory.number();
            self.memory.handles.insert(handle, Handle { phys: number, refs: 1 });
            if let Some(phys) = self.memory.phys.get_mut(&number) {
                phys.refs += 1;
            }
            return Ok(handle);
        }
        let location =
            Location { kind: (record.location >> 32) as u32, id: record.location as i32 };
        self.check_location(location)?;
        let (compression, rdma, usage, win32) = (0, 0, 0, 0);
        let (kind, handle_types, reserved) = (1, POSIX_FD, [0; 4]);
        let prop =
            AllocProp { kind, handle_types, location, win32, compression, rdma, usage, reserved };
        let handle = self.add_phys(piece, record.size, prop, false);
        if let Some(phys) = self.memory.handles.get(&handle).map(|known| known.phys) {
            self.memory.phys.entry(phys).and_modify(|phys| phys.shared = true);
        }
        Ok(handle)
    }
}

/// Addresses that nothing may touch yet, aligned; at `hint` if that is free.
fn reserve_aligned(size: u64, padded: u64, align: u64, hint: u64) -> Res<u64> {
    let none = libc::PROT_NONE;
    if hint != 0 && hint.is_multiple_of(align) {
        // SAFETY: a fresh mapping; without MAP_FIXED nothing existing is replaced.
        let at = unsafe { libc::mmap(hint as *mut _, size as usize, none, ANONYMOUS, -1, 0) };
        if at as u64 == hint {
            return Ok(hint);
        }
        if at != libc::MAP_FAILED {
            // SAFETY: the mapping just made.
            unsafe { libc::munmap(at, size as usize) };
        }
    }
    // SAFETY: a fresh mapping.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), padded as usize, none, ANONYMOUS, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(code::OUT_OF_MEMORY);
    }
    let base = base as u64;
    let start = base.next_multiple_of(align);
    let end = start + size.next_multiple_of(HOST_PAGE);
    // SAFETY: cuts off the two ends of the fresh mapping.
    unsafe {
        if start > base {
            libc::munmap(base as *mut _, (start - base) as usize);
        }
        if base + padded > end {
            libc::munmap(end as *mut _, (base + padded - end) as usize);
        }
    }
    Ok(start)
}
