//! Handles, their aliases, and which of them are idle.

use crate::device::PhysHandle;

/// Index of a handle; 0 is none.
pub type HandleId = u32;
/// Index of an alias; 0 is none.
pub type AliasId = u32;

/// Largest handle in pages; `Handles` keeps one idle list for each size.
pub const HANDLE_PAGES_MAX: usize = 8;

/// "Work of this stream up to this epoch may still use it."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Stream index in the pool; 0 is none.
    pub stream: u32,
    /// Epoch of that stream.
    pub epoch: u64,
}

/// Physical memory.
pub struct Handle {
    /// The driver's handle.
    pub phys: PhysHandle,
    /// Pages.
    pub pages: u32,
    /// Live blocks that touch it, through `active`.
    pub touches: u32,
    /// Alias through which it is used now; 0 while idle.
    pub active: AliasId,
    /// Alias through which it was used last: tags of ranges there are exact.
    pub home: AliasId,
    /// Everything that may still use it, by whatever alias.
    pub tags: Vec<Tag>,
    /// Places where it is mapped.
    pub aliases: Vec<AliasId>,
    /// When it became idle, in milliseconds of the runtime's clock.
    pub idle_since_ms: u64,
    /// Private to a captured graph: never taken over.
    pub private: bool,
    /// A driver call works on it, or the record is not in use.
    pub busy: bool,
    prev: HandleId,
    next: HandleId,
    listed: bool,
}

/// A place where a handle is mapped.
#[derive(Clone, Copy, Default)]
pub struct Alias {
    /// The handle.
    pub handle: HandleId,
    /// Region and first page.
    pub region: u16,
    /// See `region`.
    pub page: u32,
    /// The range of kind `Blocked` that covers it, 0 if it is not blocked.
    pub blocked: u32,
}

/// Why a handle could not be used through an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// In use through another alias.
    Elsewhere,
    /// Another stream may still use it.
    Unfinished,
}

/// All handles of a pool.
pub struct Handles {
    handles: Vec<Handle>,
    unused: Vec<HandleId>,
    aliases: Vec<Alias>,
    unused_aliases: Vec<AliasId>,
    heads: [HandleId; HANDLE_PAGES_MAX + 1],
    tails: [HandleId; HANDLE_PAGES_MAX + 1],
    /// Pages of all listed idle handles.
    pub idle_pages: u64,
    /// Aliases in use.
    pub alias_count: usize,
}

/// The idle list of a handle: by size, whole driver allocations with the largest.
fn bucket(pages: u32) -> usize {
    (pages as usize).min(HANDLE_PAGES_MAX)
}

fn blank() -> Handle {
    Handle {
        phys: PhysHandle(0),
        pages: 0,
        touches: 0,
        active: 0,
        home: 0,
        tags: Vec::new(),
        aliases: Vec::new(),
        idle_since_ms: 0,
        private: false,
        busy: true,
        prev: 0,
        next: 0,
        listed: false,
    }
}

impl Default for Handles {
    fn default() -> Self {
        Handles {
            handles: vec![blank()],
            unused: Vec::new(),
            aliases: vec![Alias::default()],
            unused_aliases: Vec::new(),
            heads: [0; HANDLE_PAGES_MAX + 1],
            tails: [0; HANDLE_PAGES_MAX + 1],
            idle_pages: 0,
            alias_count: 0,
        }
    }
}

impl std::ops::Index<HandleId> for Handles {
    type Output = Handle;
    #[inline]
    fn index(&self, id: HandleId) -> &Handle {
        &self.handles[id as usize]
    }
}

impl std::ops::IndexMut<HandleId> for Handles {
    #[inline]
    fn index_mut(&mut self, id: HandleId) -> &mut Handle {
        &mut self.handles[id as usize]
    }
}

impl Handles {
    /// A new handle record, busy until the driver has answered.
    pub fn new_handle(&mut self, pages: u32) -> HandleId {
        let id = match self.unused.pop() {
            Some(id) => id,
            None => {
                self.handles.push(blank());
                (self.handles.len() - 1) as HandleId
            }
        };
        let mut handle = blank();
        handle.pages = pages;
        self.handles[id as usize] = handle;
        id
    }

    /// Number of handles.
    pub fn count(&self) -> usize {
        self.handles.len() - 1 - self.unused.len()
    }

    /// Forget a handle that has no alias left.
    pub fn drop_handle(&mut self, id: HandleId) {
        debug_assert!(!self[id].listed && self[id].aliases.is_empty());
        self.handles[id as usize] = blank();
        self.unused.push(id);
    }

    /// Note a new place of a handle.
    pub fn new_alias(&mut self, handle: HandleId, region: u16, page: u32) -> AliasId {
        let alias = Alias { handle, region, page, blocked: 0 };
        let id = match self.unused_aliases.pop() {
            Some(id) => {
                self.aliases[id as usize] = alias;
                id
            }
            None => {
                self.aliases.push(alias);
                (self.aliases.len() - 1) as AliasId
            }
        };
        self[handle].aliases.push(id);
        self.alias_count += 1;
        id
    }

    /// Forget a place.
    pub fn drop_alias(&mut self, id: AliasId) {
        let handle = self.aliases[id as usize].handle;
        let record = &mut self[handle];
        record.aliases.retain(|&a| a != id);
        if record.home == id {
            record.home = 0;
        }
        self.aliases[id as usize] = Alias::default();
        self.unused_aliases.push(id);
        self.alias_count -= 1;
    }

    /// An alias.
    #[inline]
    pub fn alias(&self, id: AliasId) -> &Alias {
        &self.aliases[id as usize]
    }

    /// An alias, to change.
    pub fn alias_mut(&mut self, id: AliasId) -> &mut Alias {
        &mut self.aliases[id as usize]
    }

    /// One more live block of `stream` uses the handle through `alias`. `done` says whether a tag
    /// is finished. Through the home alias the tags of the ranges already decided; through another
    /// one every use of the handle must be finished or be of the same stream.
    /// Uses of the same stream that are not finished are returned: the ranges around the block, at
    /// this place, must carry them.
    #[inline]
    pub fn acquire(
        &mut self,
        alias: AliasId,
        stream: u32,
        done: impl Fn(Tag) -> bool,
    ) -> Result<Option<Tag>, Conflict> {
        let id = self.aliases[alias as usize].handle;
        let handle = &mut self.handles[id as usize];
        if handle.active == alias {
            handle.touches += 1;
            return Ok(None);
        }
        if handle.active != 0 || handle.busy {
            return Err(Conflict::Elsewhere);
        }
        // A graph's memory is used through the graph's own place, the last one, until it is
        // released.
        if handle.private && handle.aliases.last() != Some(&alias) {
            return Err(Conflict::Elsewhere);
        }
        let mut unfinished = None;
        if handle.home != alias {
            handle.tags.retain(|&t| !done(t));
            if handle.tags.iter().any(|t| t.stream != stream) {
                return Err(Conflict::Unfinished);
            }
            unfinished = handle.tags.first().copied();
        }
        handle.active = alias;
        handle.home = alias;
        handle.touches = 1;
        self.unlist(id);
        Ok(unfinished)
    }

    /// One live block less uses the handle. True if it is idle now.
    #[inline]
    pub fn release(&mut self, alias: AliasId, tag: Option<Tag>, now_ms: u64) -> bool {
        let id = self.aliases[alias as usize].handle;
        let handle = &mut self.handles[id as usize];
        if let Some(tag) = tag {
            match handle.tags.iter_mut().find(|t| t.stream == tag.stream) {
                Some(t) => t.epoch = t.epoch.max(tag.epoch),
                None => handle.tags.push(tag),
            }
        }
        handle.touches -= 1;
        if handle.touches > 0 {
            return false;
        }
        handle.active = 0;
        handle.idle_since_ms = now_ms;
        if !handle.private {
            self.list(id);
        }
        true
    }

    /// Put an idle handle at the young end of its list.
    pub fn list(&mut self, id: HandleId) {
        if self[id].listed {
            return;
        }
        let n = bucket(self[id].pages);
        let tail = self.tails[n];
        self[id].prev = tail;
        self[id].next = 0;
        self[id].listed = true;
        if tail == 0 {
            self.heads[n] = id;
        } else {
            self[tail].next = id;
        }
        self.tails[n] = id;
        self.idle_pages += u64::from(self[id].pages);
    }

    /// Take a handle off its idle list.
    pub fn unlist(&mut self, id: HandleId) {
        if !self[id].listed {
            return;
        }
        let n = bucket(self[id].pages);
        let (prev, next) = (self[id].prev, self[id].next);
        if prev == 0 {
            self.heads[n] = next;
        } else {
            self[prev].next = next;
        }
        if next == 0 {
            self.tails[n] = prev;
        } else {
            self[next].prev = prev;
        }
        self[id].listed = false;
        self.idle_pages -= u64::from(self[id].pages);
    }

    /// The handle that has been idle longest among those of `pages` pages; 0 if there is none.
    pub fn oldest(&self, pages: usize) -> HandleId {
        self.heads[pages]
    }

    /// The next younger one of the same size.
    pub fn younger(&self, id: HandleId) -> HandleId {
        self[id].next
    }

    /// True if nothing on the device uses the handle any more (prunes finished tags).
    pub fn finished(&mut self, id: HandleId, done: impl Fn(Tag) -> bool) -> bool {
        let handle = &mut self[id];
        handle.tags.retain(|&t| !done(t));
        handle.tags.is_empty()
    }

    /// All handle ids in use, for reports and destruction.
    pub fn ids(&self) -> impl Iterator<Item = HandleId> + '_ {
        (1..self.handles.len() as HandleId).filter(|&id| self[id].pages != 0)
    }
}
