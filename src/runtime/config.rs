//! Options: one table gives names, environment variables, defaults, checks and documentation.

use crate::base::size_text::{parse_duration_ms, parse_share, parse_size, Size};
use crate::base::{Error, Result, Status};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// One option.
pub struct OptionSpec {
    /// Name; the environment variable is `CENOTE_` and the name in capitals.
    pub name: &'static str,
    /// Value where nothing is set.
    pub default: &'static str,
    /// What it does, with unit and range.
    pub help: &'static str,
    check: fn(&str) -> bool,
}

/// All options.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "backend",
        default: "auto",
        help: "auto (CUDA where a driver and a device exist, else the host), cuda or host",
        check: |v| matches!(v, "auto" | "cuda" | "host"),
    },
    OptionSpec {
        name: "device",
        default: "0",
        help: "device used where no context is current: an index",
        check: |v| v.parse::<u16>().is_ok(),
    },
    OptionSpec {
        name: "limit",
        default: "",
        help: "most memory of each device: a size or share (8GiB, 50%), or INDEX=SIZE,UUID=SIZE",
        check: |v| v.is_empty() || parse_limits(v).is_some(),
    },
    OptionSpec {
        name: "slack",
        default: "auto",
        help: "share by which held may exceed peak live before takeover: auto, 0.01, 1%",
        check: |v| parse_share(v).is_some(),
    },
    OptionSpec {
        name: "decay",
        default: "10s",
        help: "idle pages go back to the driver after this time: 10s, 500ms, 0 (at once), off",
        check: |v| parse_duration_ms(v).is_some(),
    },
    OptionSpec {
        name: "lag",
        default: "0",
        help: "testing: completions come this many operations late (0 to 1000000)",
        check: |v| v.parse::<u64>().is_ok_and(|n| n <= 1_000_000),
    },
    OptionSpec {
        name: "host_memory",
        default: "auto",
        help: "testing: memory of each host device, even more than there is: auto, 1TiB",
        check: |v| v == "auto" || matches!(parse_size(v), Some(Size::Bytes(1..))),
    },
    OptionSpec {
        name: "host_devices",
        default: "1",
        help: "testing: number of devices of the host backend (1 to 16)",
        check: |v| v.parse::<u32>().is_ok_and(|n| (1..=16).contains(&n)),
    },
];

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The table.
    Default,
    /// The environment.
    Environment,
    /// `cenote_configure`.
    Configured,
}

static SET: Mutex<BTreeMap<&'static str, String>> = Mutex::new(BTreeMap::new());

fn spec(name: &str) -> Result<&'static OptionSpec> {
    OPTIONS
        .iter()
        .find(|o| o.name == name)
        .ok_or(Error::new(Status::E_OPTION, "cenote_configure: name"))
}

/// Set an option.
pub fn set(name: &str, value: &str) -> Result<()> {
    let spec = spec(name)?;
    if !(spec.check)(value) {
        return Err(Error::new(Status::E_VALUE, spec.name));
    }
    SET.lock().insert(spec.name, value.to_string());
    Ok(())
}

/// Effective value of an option and its source.
pub fn get(name: &str) -> Result<(String, Source)> {
    let spec = spec(name)?;
    if let Some(value) = SET.lock().get(spec.name) {
        return Ok((value.clone(), Source::Configured));
    }
    match std::env::var(env_name(spec.name)) {
        Ok(value) if (spec.check)(&value) => Ok((value, Source::Environment)),
        Ok(_) => Err(Error::new(Status::E_VALUE, env_name_static(spec.name))),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Error::new(Status::E_VALUE, env_name_static(spec.name)))
        }
        Err(std::env::VarError::NotPresent) => Ok((spec.default.to_string(), Source::Default)),
    }
}

/// The environment variable of an option.
pub fn env_name(name: &str) -> String {
    format!("CENOTE_{}", name.to_uppercase())
}

fn env_name_static(name: &str) -> &'static str {
    match name {
        "backend" => "environment variable CENOTE_BACKEND",
        "device" => "environment variable CENOTE_DEVICE",
        "limit" => "environment variable CENOTE_LIMIT",
        "slack" => "environment variable CENOTE_SLACK",
        "decay" => "environment variable CENOTE_DECAY",
        "lag" => "environment variable CENOTE_LAG",
        "host_memory" => "environment variable CENOTE_HOST_MEMORY",
        _ => "environment variable CENOTE_HOST_DEVICES",
    }
}

/// Slack in parts per million; none: chosen by the library.
pub fn slack() -> Result<Option<u32>> {
    Ok(parse_share(&get("slack")?.0).unwrap_or(None))
}

/// Decay in milliseconds; none: off.
pub fn decay() -> Result<Option<u32>> {
    Ok(parse_duration_ms(&get("decay")?.0).unwrap_or(None))
}

/// A number option.
pub fn number(name: &str) -> Result<u64> {
    Ok(get(name)?.0.parse().unwrap_or(0))
}

/// Device (none: all) and limit of each entry of a limit text.
pub fn parse_limits(text: &str) -> Option<Vec<(Option<String>, Size)>> {
    text.split(',')
        .map(|entry| match entry.split_once('=') {
            Some((device, size)) => {
                let known = device.starts_with("GPU-") || device.parse::<u16>().is_ok();
                known.then_some(())?;
                Some((Some(device.to_string()), parse_size(size)?))
            }
            None => Some((None, parse_size(entry)?)),
        })
        .collect()
}

/// Refuse a limit for a device that is not there: a typing error would be no limit at all.
pub fn check_limits(uuids: &[String]) -> Result<()> {
    let text = get("limit")?.0;
    let entries =
        if text.is_empty() { Vec::new() } else { parse_limits(&text).unwrap_or_default() };
    let known = |device: &String| {
        uuids.contains(device) || device.parse::<usize>().is_ok_and(|index| index < uuids.len())
    };
    if entries.iter().filter_map(|(device, _)| device.as_ref()).all(known) {
        return Ok(());
    }
    Err(Error::new(Status::E_VALUE, "limit: there is no such device"))
}

/// Limit of a device in bytes; none where none is set.
pub fn limit_of(index: u32, uuid: &str, total_bytes: u64) -> Result<Option<u64>> {
    let text = get("limit")?.0;
    if text.is_empty() {
        return Ok(None);
    }
    let mut limit = None;
    for (device, size) in parse_limits(&text).unwrap_or_default() {
        let ours = device.is_none_or(|d| d == uuid || d.parse() == Ok(index));
        if ours {
            limit = Some(size.of(total_bytes));
        }
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_name_devices_by_index_and_uuid() {
        let parsed = parse_limits("GPU-abc=8GiB,1=50%").unwrap();
        assert_eq!(parsed[0], (Some("GPU-abc".into()), Size::Bytes(8 << 30)));
        assert_eq!(parsed[1], (Some("1".into()), Size::Share(500_000)));
        assert_eq!(parse_limits("8GiB").unwrap(), [(None, Size::Bytes(8 << 30))]);
        for bad in ["8", "x=8GiB", "1=", "1=8", "8GiB,,"] {
            assert!(parse_limits(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn every_option_accepts_its_default_and_names_its_variable() {
        for option in OPTIONS {
            assert!((option.check)(option.default), "{}", option.name);
            assert!(env_name_static(option.name).ends_with(&env_name(option.name)));
            assert!(option.help.len() < 256 && option.name.len() < 32);
        }
    }

    #[test]
    fn bad_names_and_values_are_refused() {
        assert_eq!(set("no_such", "1").unwrap_err().status, Status::E_OPTION);
        assert_eq!(set("slack", "much").unwrap_err().status, Status::E_VALUE);
        assert_eq!(set("limit", "0.15").unwrap_err().status, Status::E_VALUE);
    }
}
