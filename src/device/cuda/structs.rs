//! The driver's structs and constants, as cuda.h lays them out; their sizes never changed.

/// CU_MEM_ALLOCATION_TYPE_PINNED.
const ALLOCATION_PINNED: u32 = 1;
/// CU_MEM_LOCATION_TYPE_DEVICE.
const LOCATION_DEVICE: u32 = 1;
/// CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
const ACCESS_READ_WRITE: u32 = 3;
/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
pub const HANDLE_POSIX_FD: u32 = 1;
/// CU_MEM_ALLOC_GRANULARITY_MINIMUM.
pub const GRANULARITY_MINIMUM: u32 = 0;
/// CU_STREAM_CAPTURE_MODE_RELAXED.
pub const CAPTURE_RELAXED: u32 = 2;
/// CU_STREAM_CAPTURE_STATUS_NONE.
pub const CAPTURE_NONE: u32 = 0;
/// CU_STREAM_CAPTURE_STATUS_ACTIVE.
pub const CAPTURE_ACTIVE: u32 = 1;
/// CU_EVENT_DISABLE_TIMING.
pub const EVENT_NO_TIMING: u32 = 2;
/// CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.
pub const USER_OBJECT_NO_SYNC: u32 = 1;
/// CU_GRAPH_USER_OBJECT_MOVE.
pub const USER_OBJECT_MOVE: u32 = 1;

/// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR.
pub const ATTRIBUTE_MAJOR: u32 = 75;
/// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR.
pub const ATTRIBUTE_MINOR: u32 = 76;
/// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
pub const ATTRIBUTE_VMM: u32 = 102;
/// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED.
pub const ATTRIBUTE_POSIX_FD: u32 = 103;
/// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED.
pub const ATTRIBUTE_RDMA_VMM: u32 = 110;

/// CUuuid.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Uuid {
    pub bytes: [u8; 16],
}

impl Uuid {
    /// "GPU-8-4-4-4-12" in hexadecimal, as NVIDIA's tools print it.
    pub fn text(self) -> String {
        let mut text = String::from("GPU");
        for (index, byte) in self.bytes.iter().enumerate() {
            if [0, 4, 6, 8, 10].contains(&index) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

/// CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    kind: u32,
    id: i32,
}

/// CUmemAllocationProp.
#[repr(C)]
pub struct AllocationProp {
    kind: u32,
    handle_types: u32,
    location: Location,
    win32: usize,
    compression: u8,
    rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

impl AllocationProp {
    /// Memory of a device, exportable as a file descriptor or reachable by RDMA if asked for.
    pub fn of_device(ordinal: i32, export: bool, rdma: bool) -> AllocationProp {
        AllocationProp {
            kind: ALLOCATION_PINNED,
            handle_types: if export { HANDLE_POSIX_FD } else { 0 },
            location: Location { kind: LOCATION_DEVICE, id: ordinal },
            win32: 0,
            compression: 0,
            rdma: rdma.into(),
            usage: 0,
            reserved: [0; 4],
        }
    }
}

/// CUmemAccessDesc.
#[repr(C)]
pub struct AccessDesc {
    location: Location,
    flags: u32,
}

impl AccessDesc {
    /// Read and write access for a device.
    pub fn of_device(ordinal: i32) -> AccessDesc {
        let location = Location { kind: LOCATION_DEVICE, id: ordinal };
        AccessDesc { location, flags: ACCESS_READ_WRITE }
    }
}

const _: () = assert!(size_of::<AllocationProp>() == 32);
const _: () = assert!(size_of::<AccessDesc>() == 12);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_as_the_tools_print_it() {
        let mut bytes = [0; 16];
        (0..16).for_each(|i| bytes[i as usize] = i * 17);
        assert_eq!(Uuid { bytes }.text(), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
