//! Memory as the devices see it: what is mapped where, who may touch it, and what queued work uses.

use std::collections::{BTreeMap, HashMap};

use crate::abi::AllocProp;
use crate::phys::{Piece, Store, PAGE_BYTES};
use crate::plain::Plain;

/// Bit of the host in an access mask; a device's bit is its number.
pub const HOST_BIT: u32 = 1 << 31;

/// Memory of one device.
pub struct DeviceMemory {
    /// Size of the device.
    pub total: u64,
    /// Bytes that other processes hold.
    pub other: u64,
    /// Bytes that this process holds.
    pub used: u64,
    /// Where its physical memory comes from.
    pub store: Store,
}

/// Physical memory, alive while a handle or a mapping refers to it.
pub struct Phys {
    /// The bytes.
    pub piece: Piece,
    /// Size in bytes.
    pub size: u64,
    /// What it was created with.
    pub prop: AllocProp,
    /// References through handles.
    pub refs: u64,
    /// Mappings.
    pub maps: u64,
    /// Another process may hold it: its host memory is left alone.
    pub shared: bool,
    /// Counts as memory of its device in this process.
    pub counted: bool,
    /// Handle that `cuMemRetainAllocationHandle` gives.
    pub handle: u64,
}

/// A handle with its own count.
pub struct Handle {
    /// Number of the physical memory.
    pub phys: u64,
    /// References of this handle.
    pub refs: u64,
}

/// A mapping of a whole handle.
pub struct Mapping {
    /// Size in bytes.
    pub size: u64,
    /// Number of the physical memory.
    pub phys: u64,
    /// Who may read.
    pub readers: u32,
    /// Who may write.
    pub writers: u32,
}

/// A reserved range of addresses.
pub struct Reservation {
    /// Size in bytes.
    pub size: u64,
    /// Mappings by address.
    pub maps: BTreeMap<u64, Mapping>,
}

/// All memory.
pub struct Memory {
    /// By device.
    pub devices: Vec<DeviceMemory>,
    /// Physical memory of the host.
    pub host_store: Store,
    /// Physical memory by number.
    pub phys: HashMap<u64, Phys>,
    /// Handles by value.
    pub handles: HashMap<u64, Handle>,
    /// Last number given to physical memory or a handle.
    pub last_number: u64,
    /// Reservations by address.
    pub reservations: BTreeMap<u64, Reservation>,
    /// Bytes of address space reserved.
    pub reserved_bytes: u64,
    /// Allocations outside virtual memory management, by address.
    pub plain: BTreeMap<u64, Plain>,
    uses: HashMap<u64, u32>,
}

/// What an address belongs to.
pub enum Owner<'a> {
    /// Reserved, and mapped or not.
    Reserved(&'a Reservation),
    /// A plain allocation and its address.
    Plain(u64, &'a Plain),
    /// Nothing that the driver knows: pageable host memory, or nothing.
    Unknown,
}

impl Memory {
    /// Empty devices of `total` bytes.
    pub fn new(devices: u32, total: u64) -> Memory {
        let device = |_| DeviceMemory { total, other: 0, used: 0, store: Store::new() };
        Memory {
            devices: (0..devices).map(device).collect(),
            host_store: Store::new(),
            phys: HashMap::new(),
            handles: HashMap::new(),
            last_number: 0,
            reservations: BTreeMap::new(),
            reserved_bytes: 0,
            plain: BTreeMap::new(),
            uses: HashMap::new(),
        }
    }

    /// Number of mappings.
    pub fn mapping_count(&self) -> usize {
        self.reservations.values().map(|range| range.maps.len()).sum()
    }

    /// Bytes that can still be taken.
    pub fn free_bytes(&self, device: usize) -> u64 {
        let memory = &self.devices[device];
        memory.total.saturating_sub(memory.other).saturating_sub(memory.used)
    }

    /// A new number for physical memory or a handle; never reused.
    pub fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The reservation around an address.
    pub fn reservation_at(&self, addr: u64) -> Option<(u64, &Reservation)> {
        let (start, range) = self.reservations.range(..=addr).next_back()?;
        (addr - start < range.size).then_some((*start, range))
    }

    /// The reservation that contains the whole range.
    pub fn reservation_of(&mut self, addr: u64, size: u64) -> Option<(u64, &mut Reservation)> {
        let (start, range) = self.reservations.range_mut(..=addr).next_back()?;
        let end = addr.checked_add(size)?;
        (end <= start + range.size).then_some((*start, range))
    }

    /// Whose address this is.
    pub fn owner(&self, addr: u64) -> Owner<'_> {
        if let Some((_, range)) = self.reservation_at(addr) {
            return Owner::Reserved(range);
        }
        match self.plain.range(..=addr).next_back() {
            Some((start, plain)) if addr - start < plain.size => Owner::Plain(*start, plain),
            _ => Owner::Unknown,
        }
    }

    /// Whether a device may read (or write) the whole range.
    pub fn device_may(&self, device: usize, addr: u64, len: u64, write: bool) -> bool {
        let Some(end) = addr.checked_add(len) else { return false };
        match self.owner(addr) {
            Owner::Unknown => len == 0,
            Owner::Plain(start, plain) => end <= start + plain.size,
            Owner::Reserved(range) => {
                let mut at = addr;
                while at < end {
                    let Some(next) = range.allowed_until(at, device, write) else { return false };
                    at = next;
                }
                true
            }
        }
    }

    /// Note that queued work uses a range.
    pub fn add_use(&mut self, addr: u64, len: u64) {
        for page in pages(addr, len) {
            *self.uses.entry(page).or_insert(0) += 1;
        }
    }

    /// The work is done.
    pub fn drop_use(&mut self, addr: u64, len: u64) {
        for page in pages(addr, len) {
            if let Some(count) = self.uses.get_mut(&page) {
                *count -= 1;
                if *count == 0 {
                    self.uses.remove(&page);
                }
            }
        }
    }

    /// Whether queued work uses any page of a range of whole pages.
    pub fn in_use(&self, addr: u64, len: u64) -> bool {
        !self.uses.is_empty() && pages(addr, len).any(|page| self.uses.contains_key(&page))
    }

    /// Read a range that was checked; false if it ends outside what its first byte belongs to.
    pub fn read(&self, addr: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let at = addr + done as u64;
            let rest = &mut into[done..];
            let Owner::Reserved(range) = self.owner(at) else {
                // SAFETY: a plain allocation, checked by the caller, or pageable host memory that
                // the program promises to be readable, as the real driver trusts it.
                unsafe {
                    std::ptr::copy_nonoverlapping(at as *const u8, rest.as_mut_ptr(), rest.len());
                }
                return true;
            };
            let Some((start, map)) = range.mapping_at(at) else { return false };
            let count = rest.len().min((start + map.size - at) as usize);
            if !self.phys[&map.phys].piece.read(at - start, &mut rest[..count]) {
                return false;
            }
            done += count;
        }
        true
    }

    /// Write a range that was checked.
    pub fn write(&self, addr: u64, from: &[u8]) -> bool {
        let mut done = 0;
        while done < from.len() {
            let at = addr + done as u64;
            let rest = &from[done..];
            let Owner::Reserved(range) = self.owner(at) else {
                // SAFETY: as in `read`, for writing.
                unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), at as *mut u8, rest.len()) }
                return true;
            };
            let Some((start, map)) = range.mapping_at(at) else { return false };
            let count = rest.len().min((start + map.size - at) as usize);
            if !self.phys[&map.phys].piece.write(at - start, &rest[..count]) {
                return false;
            }
            done += count;
        }
        true
    }
}

/// Numbers of the pages that a range touches.
fn pages(addr: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 {
        return 0..0;
    }
    addr / PAGE_BYTES..(addr + len - 1) / PAGE_BYTES + 1
}

impl Reservation {
    /// The mapping around an address.
    pub fn mapping_at(&self, addr: u64) -> Option<(u64, &Mapping)> {
        let (start, map) = self.maps.range(..=addr).next_back()?;
        (addr - start < map.size).then_some((*start, map))
    }

    /// End of the mapping around an address if the device may use it.
    fn allowed_until(&self, addr: u64, device: usize, write: bool) -> Option<u64> {
        let (start, map) = self.mapping_at(addr)?;
        let mask = if write { map.writers } else { map.readers };
        (mask & (1 << device) != 0).then_some(start + map.size)
    }

    /// Whether nothing is mapped in a range.
    pub fn is_unmapped(&self, addr: u64, size: u64) -> bool {
        self.mapping_at(addr).is_none() && self.maps.range(addr..addr + size).next().is_none()
    }

    /// Whether a range consists of whole mappings without a gap.
    pub fn is_whole(&self, addr: u64, size: u64) -> bool {
        let mut at = addr;
        for (start, map) in self.maps.range(addr..addr + size) {
            if *start != at {
                return false;
            }
            at += map.size;
        }
        at == addr + size
    }
}
