//! Settings: read once from the environment (`FAKECUDA_…`), changed later by control functions.
//!
//! The table of variables stands in the head of `lib.rs`.

use crate::function;

/// One injected fault of a driver function.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Number of the function.
    pub function: usize,
    /// Calls that still pass before the first failure.
    pub skip: u64,
    /// Failures that are left.
    pub times: u64,
    /// Code to return.
    pub code: u32,
    /// From the failure on, every call that needs a context returns the code.
    pub sticky: bool,
}

/// All settings.
#[derive(Debug)]
pub struct Options {
    /// Number of devices; none makes `cuInit` return NO_DEVICE.
    pub devices: u32,
    /// Memory of each device in bytes.
    pub total_bytes: u64,
    /// Driver version as `cuDriverGetVersion` gives it.
    pub version: i32,
    /// What `cuInit` returns.
    pub init_code: u32,
    /// The clock stands until it is advanced; destructors wait for a drain.
    pub deterministic: bool,
    /// Work completes only after this many later pieces of work were queued.
    pub lag_ops: u64,
    /// Virtual-memory calls need a current context.
    pub vmm_needs_context: bool,
    /// Calls on explicit streams and events need a current context.
    pub stream_needs_context: bool,
    /// A host wait that lasts longer is a violation and returns LAUNCH_TIMEOUT.
    pub hang_ms: u64,
    /// A query that finds work unfinished advances the virtual clock by this much.
    pub query_advance_us: u64,
    /// Address space that may be reserved in all.
    pub reserve_limit_bytes: u64,
    /// User objects' destructors run this much later.
    pub destructor_delay_us: u64,
    /// The host can read and write device memory at its address, which the real driver does not
    /// allow; 0 makes such an access fault.
    pub host_access: bool,
    /// Exit with code 86 and a message if there were violations.
    pub strict_exit: bool,
    /// Attribute values that replace the built-in ones, for all devices.
    pub attributes: Vec<(i32, i32)>,
    /// Injected faults.
    pub faults: Vec<Fault>,
    /// Delays in microseconds by function.
    pub delays: Vec<(usize, u64)>,
    /// Symbols that `cuGetProcAddress_v2` does not find.
    pub missing: Vec<String>,
    /// Texts of the environment that could not be read; each becomes a violation, so that a test
    /// with a misspelt setting fails.
    pub unreadable: Vec<String>,
}

/// The environment, with a note of what could not be read.
#[derive(Default)]
struct Reader {
    unreadable: Vec<String>,
}

impl Reader {
    fn number(&mut self, name: &str, default: u64) -> u64 {
        let Ok(value) = std::env::var(format!("FAKECUDA_{name}")) else { return default };
        value.parse().unwrap_or_else(|_| {
            self.unreadable.push(format!("FAKECUDA_{name}={value}"));
            default
        })
    }

    fn list<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let value = std::env::var(format!("FAKECUDA_{name}")).unwrap_or_default();
        let mut items = Vec::new();
        for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match parse(item) {
                Some(parsed) => items.push(parsed),
                None => self.unreadable.push(format!("FAKECUDA_{name}: {item}")),
            }
        }
        items
    }
}

fn pair(item: &str) -> Option<(&str, &str)> {
    let (left, right) = item.split_once('=')?;
    Some((left.trim(), right.trim()))
}

/// `name:nth=code`, `name:nth x times=code`, a trailing `!` makes it sticky.
fn parse_fault(item: &str) -> Option<Fault> {
    let (left, right) = pair(item)?;
    let (name, count) = left.split_once(':').unwrap_or((left, "1"));
    let (nth, times) = count.split_once('x').unwrap_or((count, "1"));
    let nth: u64 = nth.trim().parse().ok()?;
    Some(Fault {
        function: function::index_of(name.trim())?,
        skip: nth.checked_sub(1)?,
        times: times.trim().parse().ok()?,
        code: right.trim_end_matches('!').parse().ok()?,
        sticky: right.ends_with('!'),
    })
}

impl Options {
    /// Read the environment.
    pub fn from_env() -> Options {
        let attribute = |item: &str| {
            let (name, value) = pair(item)?;
            Some((name.parse().ok()?, value.parse().ok()?))
        };
        let delay = |item: &str| {
            let (name, value) = pair(item)?;
            Some((function::index_of(name)?, value.parse().ok()?))
        };
        let mut env = Reader::default();
        let mut options = Options {
            devices: env.number("DEVICES", 1).min(16) as u32,
            total_bytes: env.number("TOTAL_BYTES", 16 << 30),
            version: env.number("VERSION", 13000) as i32,
            init_code: env.number("INIT", 0) as u32,
            deterministic: env.number("DETERMINISTIC", 0) != 0,
            lag_ops: env.number("LAG_OPS", 0),
            vmm_needs_context: env.number("VMM_NEEDS_CONTEXT", 0) != 0,
            stream_needs_context: env.number("STREAM_NEEDS_CONTEXT", 0) != 0,
            hang_ms: env.number("HANG_MS", 30_000),
            query_advance_us: env.number("QUERY_ADVANCE_US", 0),
            reserve_limit_bytes: env.number("RESERVE_LIMIT_BYTES", 1 << 47),
            destructor_delay_us: env.number("DESTRUCTOR_DELAY_US", 100),
            host_access: env.number("HOST_ACCESS", 1) != 0,
            strict_exit: env.number("STRICT_EXIT", 0) != 0,
            attributes: env.list("ATTRIBUTES", attribute),
            faults: env.list("FAIL", parse_fault),
            delays: env.list("DELAY", delay),
            missing: env.list("MISSING", |name| Some(name.to_owned())),
            unreadable: Vec::new(),
        };
        options.unreadable = env.unreadable;
        options
    }

    /// Change a numeric setting by its name in lower case; false if there is no such name.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        match name {
            "version" => self.version = value as i32,
            "init" => self.init_code = value as u32,
            "deterministic" => self.deterministic = value != 0,
            "lag_ops" => self.lag_ops = value,
            "vmm_needs_context" => self.vmm_needs_context = value != 0,
            "stream_needs_context" => self.stream_needs_context = value != 0,
            "hang_ms" => self.hang_ms = value,
            "query_advance_us" => self.query_advance_us = value,
            "reserve_limit_bytes" => self.reserve_limit_bytes = value,
            "destructor_delay_us" => self.destructor_delay_us = value,
            "host_access" => self.host_access = value != 0,
            "strict_exit" => self.strict_exit = value != 0,
            _ => return false,
        }
        true
    }
}
