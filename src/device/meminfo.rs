//! What Linux says about the host's memory: total and available bytes, within the control group.

use std::fs;
use std::io::Read;

/// Total and available bytes for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// Memory of the machine, or the limit of the control group if that is smaller.
    pub total_bytes: u64,
    /// What can still be used without swapping; advisory.
    pub available_bytes: u64,
}

/// Reads /proc/meminfo and the control group's files. `None` where /proc is not mounted.
pub fn read() -> Option<HostMemory> {
    let mut text = [0u8; 2048];
    let host = parse_meminfo(read_into("/proc/meminfo", &mut text)?)?;
    Some(match read_group() {
        Some((limit, used)) => within(host, limit, used),
        None => host,
    })
}

fn within(host: HostMemory, limit: u64, used: u64) -> HostMemory {
    HostMemory {
        total_bytes: host.total_bytes.min(limit),
        available_bytes: host.available_bytes.min(limit.saturating_sub(used)),
    }
}

/// The start of a small file as text; files under /proc are written for one read.
fn read_into<'a>(path: &str, text: &'a mut [u8]) -> Option<&'a str> {
    let length = fs::File::open(path).ok()?.read(text).ok()?;
    std::str::from_utf8(&text[..length]).ok()
}

fn parse_meminfo(text: &str) -> Option<HostMemory> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        let kib: u64 = line[name.len()..].trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    let total_bytes = field("MemTotal:")?;
    // Kernels before 3.14 have no estimate; what is free is a lower bound.
    let available_bytes = field("MemAvailable:").or_else(|| field("MemFree:"))?;
    Some(HostMemory { total_bytes, available_bytes })
}

/// Limit and use of the control group, version 2 or 1; `None` where there is no limit.
fn read_group() -> Option<(u64, u64)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    group_files(&groups).into_iter().find_map(|(limit, used)| {
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        Some((number(&limit)?, number(&used).unwrap_or(0)))
    })
}

/// Where limit and use may stand, the innermost group first. Inside a container the path that the
/// kernel names is often not visible, and the mount's root is the group itself.
fn group_files(groups: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next(), fields.next(), fields.next());
        let (Some(controllers), Some(path)) = (controllers, path) else { continue };
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        for path in [path.trim_end_matches('/'), ""] {
            files.push((format!("{root}{path}/{limit}"), format!("{root}{path}/{used}")));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       1024 kB\nMemFree:  12 kB\nMemAvailable:   512 kB\n";
        let want = HostMemory { total_bytes: 1 << 20, available_bytes: 512 << 10 };
        assert_eq!(parse_meminfo(text), Some(want));
        let old = parse_meminfo("MemTotal: 2 kB\nMemFree: 1 kB\n").map(|m| m.available_bytes);
        assert_eq!(old, Some(1024));
        assert_eq!(parse_meminfo("MemTotal: lots\n"), None);
        assert_eq!(parse_meminfo("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn a_group_limit_narrows_both_figures() {
        let host = HostMemory { total_bytes: 100, available_bytes: 80 };
        assert_eq!(within(host, 50, 20), HostMemory { total_bytes: 50, available_bytes: 30 });
        assert_eq!(within(host, 50, 60).available_bytes, 0);
        assert_eq!(within(host, u64::MAX, 0), host);
    }

    #[test]
    fn group_files_of_both_versions() {
        let files = group_files("4:cpu,memory:/a\n1:pids:/b\n0::/c\n");
        let limits: Vec<&str> = files.iter().map(|f| f.0.as_str()).collect();
        assert_eq!(
            limits,
            [
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/c/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = read().expect("Linux with /proc");
        assert!(memory.total_bytes > 0 && memory.available_bytes <= memory.total_bytes);
    }
}
