//! Physical memory: sparse memory files in which handles created one after the other lie side by
//! side, so that the kernel joins their mappings (a process may have 65,530 of them).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::abi::{code, Res};

/// Unit of physical memory.
pub const PAGE_BYTES: u64 = 2 << 20;

/// A memory file: one for each device and one for the host.
pub struct Store {
    file: Option<Arc<OwnedFd>>,
    next: u64,
}

/// A piece of a memory file.
#[derive(Clone)]
pub struct Piece {
    /// The file.
    pub file: Arc<OwnedFd>,
    /// Where the piece starts.
    pub offset: u64,
}

/// Beside the data, a record for each exported piece tells an importer its size.
const RECORDS_AT: u64 = 1 << 62;
const FILE_BYTES: u64 = RECORDS_AT + (1 << 61);
const MAGIC: u64 = 0x6661_6b65_6375_6461;

/// What an importer must know about a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Size in bytes.
    pub size: u64,
    /// Location kind and id, packed.
    pub location: u64,
}

impl Store {
    /// An empty store; the file is made with the first piece.
    pub fn new() -> Store {
        Store { file: None, next: 0 }
    }

    /// The next piece of `size` bytes.
    pub fn take(&mut self, size: u64) -> Res<Piece> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => self.file.insert(Arc::new(new_file()?)).clone(),
        };
        let offset = self.next;
        self.next += size;
        Ok(Piece { file, offset })
    }
}

fn new_file() -> Res<OwnedFd> {
    // SAFETY: the name is a valid string; the descriptor is fresh and owned by nobody else.
    let file = unsafe {
        let fd = libc::memfd_create(c"fakecuda".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(code::OPERATING_SYSTEM);
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: plain system call on an owned descriptor.
    if unsafe { libc::ftruncate(file.as_raw_fd(), FILE_BYTES as i64) } != 0 {
        return Err(code::OPERATING_SYSTEM);
    }
    Ok(file)
}

impl Piece {
    /// Give the host's pages back.
    pub fn punch(&self, size: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: plain system call on an owned descriptor; nothing maps the piece any more.
        unsafe {
            libc::fallocate(self.file.as_raw_fd(), mode, self.offset as i64, size as i64);
        }
    }

    /// Read bytes at an offset of the piece.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let at = (self.offset + at) as i64;
        let fd = self.file.as_raw_fd();
        // SAFETY: the buffer is valid for its length.
        let got = unsafe { libc::pread(fd, into.as_mut_ptr().cast(), into.len(), at) };
        got == into.len() as isize
    }

    /// Write bytes at an offset of the piece.
    pub fn write(&self, at: u64, from: &[u8]) -> bool {
        let at = (self.offset + at) as i64;
        let fd = self.file.as_raw_fd();
        // SAFETY: the buffer is valid for its length.
        let put = unsafe { libc::pwrite(fd, from.as_ptr().cast(), from.len(), at) };
        put == from.len() as isize
    }

    fn record_at(&self) -> i64 {
        (RECORDS_AT + self.offset / PAGE_BYTES * 32) as i64
    }

    /// A descriptor of its own whose file position names the piece.
    pub fn export(&self, record: Record) -> Res<i32> {
        let words = [MAGIC, record.size, record.location, 0];
        let fd = self.file.as_raw_fd();
        // SAFETY: the words are 32 readable bytes.
        let put = unsafe { libc::pwrite(fd, words.as_ptr().cast(), 32, self.record_at()) };
        let path = format!("/proc/self/fd/{fd}\0");
        // SAFETY: the path is zero-terminated.
        let copy = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
        if put != 32 || copy < 0 {
            return Err(code::OPERATING_SYSTEM);
        }
        // SAFETY: plain system call on the fresh descriptor.
        unsafe { libc::lseek(copy, self.offset as i64, libc::SEEK_SET) };
        Ok(copy)
    }

    /// Find the piece that a descriptor from `export` names. The descriptor stays the caller's.
    pub fn import(fd: i32) -> Res<(Piece, Record)> {
        // SAFETY: plain system calls; a bad descriptor is an error of theirs.
        let (copy, offset) = unsafe {
            (libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3), libc::lseek(fd, 0, libc::SEEK_CUR))
        };
        if copy < 0 {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the descriptor is fresh and owned by nobody else.
        let file = Arc::new(unsafe { OwnedFd::from_raw_fd(copy) });
        let offset = u64::try_from(offset).map_err(|_| code::INVALID_VALUE)?;
        let piece = Piece { file, offset };
        let mut words = [0u64; 4];
        let fd = piece.file.as_raw_fd();
        // SAFETY: the words are 32 writable bytes.
        let got = unsafe { libc::pread(fd, words.as_mut_ptr().cast(), 32, piece.record_at()) };
        if got != 32 || words[0] != MAGIC {
            return Err(code::INVALID_VALUE);
        }
        Ok((piece, Record { size: words[1], location: words[2] }))
    }

    /// Whether two pieces are the same memory.
    pub fn same(&self, other: &Piece) -> bool {
        self.offset == other.offset && self.inode() == other.inode()
    }

    fn inode(&self) -> (u64, u64) {
        let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: fstat fills the struct of an owned descriptor; zeroes are valid if it fails.
        let stat = unsafe {
            libc::fstat(self.file.as_raw_fd(), stat.as_mut_ptr());
            stat.assume_init()
        };
        (stat.st_dev, stat.st_ino)
    }
}
