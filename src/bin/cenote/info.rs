//! `cenote info`: what serves this machine, and with which settings.

use crate::failure::Outcome;
use crate::report::units;
use crate::{abi, output};
use cenote::ffi::runtime::{cenote_abi_version, cenote_option_count, cenote_version};
use serde::Serialize;
use std::fmt::Write;

/// Show versions, features, backend, devices and options
#[derive(clap::Args)]
pub struct InfoArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Everything that is shown; what is unknown is null, never 0.
#[derive(Serialize)]
struct Info {
    version: String,
    abi_version: u32,
    features: Vec<&'static str>,
    backend: Option<&'static str>,
    driver_version: Option<String>,
    devices: Vec<Device>,
    options: Vec<Setting>,
    error: Option<String>,
}

#[derive(Serialize)]
struct Device {
    index: u32,
    name: String,
    uuid: Option<String>,
    compute_capability: Option<String>,
    total_bytes: u64,
    free_bytes: Option<u64>,
    page_bytes: u64,
    limit_bytes: Option<u64>,
    host_visible: bool,
    export_fd: bool,
    rdma: bool,
    virtual_memory: bool,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    environment: String,
    value: String,
    source: &'static str,
    help: String,
}

/// Run the command. A backend that cannot start is shown and is a failure.
pub fn run(args: &InfoArgs) -> Outcome<()> {
    let mut info = Info {
        version: abi::text(cenote_version()),
        abi_version: cenote_abi_version(),
        features: features(),
        backend: None,
        driver_version: None,
        devices: Vec::new(),
        options: options()?,
        error: None,
    };
    let started = start(&mut info);
    info.error = started.as_ref().err().map(ToString::to_string);
    output::print(&if args.json { json(&info)? } else { text(&info) })?;
    started
}

fn json(info: &Info) -> Outcome<String> {
    let text = serde_json::to_string_pretty(info).map_err(crate::failure::Failure::run)?;
    Ok(text + "\n")
}

fn features() -> Vec<&'static str> {
    let all = [("cli", true), ("cuda", cfg!(feature = "cuda"))];
    all.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect()
}

fn start(info: &mut Info) -> Outcome<()> {
    let runtime = abi::runtime_info()?;
    info.backend = Some(abi::backend_name(runtime.backend));
    let version = runtime.driver_version;
    info.driver_version =
        (version != 0).then(|| format!("{}.{}", version / 1000, version % 1000 / 10));
    for index in 0..runtime.device_count {
        info.devices.push(device(index)?);
    }
    Ok(())
}

fn device(index: u32) -> Outcome<Device> {
    let device = abi::device_info(index as i32)?;
    let known = |bytes: u64| (bytes != u64::MAX).then_some(bytes);
    let uuid = abi::array_text(&device.uuid);
    let capability = device.compute_capability;
    Ok(Device {
        index,
        name: abi::array_text(&device.name),
        uuid: (!uuid.is_empty()).then_some(uuid),
        compute_capability: (capability != 0)
            .then(|| format!("{}.{}", capability / 10, capability % 10)),
        total_bytes: device.total_bytes,
        free_bytes: known(device.free_bytes),
        page_bytes: device.page_bytes,
        limit_bytes: known(device.limit_bytes),
        host_visible: device.host_visible != 0,
        export_fd: device.export_fd != 0,
        rdma: device.rdma != 0,
        virtual_memory: device.virtual_memory != 0,
    })
}

fn options() -> Outcome<Vec<Setting>> {
    let setting = |index| {
        let option = abi::option(index)?;
        let name = abi::array_text(&option.name);
        Ok(Setting {
            environment: format!("CENOTE_{}", name.to_uppercase()),
            value: abi::array_text(&option.value),
            source: match option.source {
                0 => "default",
                1 => "environment",
                _ => "configured",
            },
            help: abi::array_text(&option.help),
            name,
        })
    };
    (0..cenote_option_count()).map(setting).collect()
}

fn text(info: &Info) -> String {
    let mut out = format!("cenote    {} (ABI {})\n", info.version, info.abi_version);
    let _ = writeln!(out, "features  {}", info.features.join(", "));
    let _ = writeln!(out, "backend   {}", info.backend.unwrap_or("none"));
    if let Some(version) = &info.driver_version {
        let _ = writeln!(out, "driver    CUDA {version}");
    }
    out.push_str("devices\n");
    for device in &info.devices {
        device_text(&mut out, device);
    }
    if info.devices.is_empty() {
        out.push_str("  none\n");
    }
    out.push_str("options\n");
    let name_width = info.options.iter().map(|o| o.environment.len()).max().unwrap_or(0);
    let value_width = info.options.iter().map(|o| o.value.len()).max().unwrap_or(0).min(24);
    for option in &info.options {
        let (name, source) = (&option.environment, option.source);
        let value = if option.value.is_empty() { "–" } else { &option.value };
        let _ = writeln!(
            out,
            "  {name:<name_width$}  {value:<value_width$}  {source:<11}  {}",
            option.help
        );
    }
    out
}

fn device_text(out: &mut String, device: &Device) {
    let bytes = |value: Option<u64>, none: &str| value.map_or(none.into(), units::bytes);
    let _ = write!(out, "  {}  {}", device.index, device.name);
    if let Some(uuid) = &device.uuid {
        let _ = write!(out, " ({uuid})");
    }
    if let Some(capability) = &device.compute_capability {
        let _ = write!(out, ", compute capability {capability}");
    }
    let _ = writeln!(
        out,
        "\n     {} in all, {} free, pages of {}, limit {}",
        units::bytes(device.total_bytes),
        bytes(device.free_bytes, "unknown"),
        units::bytes(device.page_bytes),
        bytes(device.limit_bytes, "none"),
    );
    let can = [
        (device.virtual_memory, "virtual memory management"),
        (device.host_visible, "usable by the CPU"),
        (device.export_fd, "export as file descriptor"),
        (device.rdma, "RDMA"),
    ];
    let can: Vec<&str> = can.iter().filter(|(yes, _)| *yes).map(|(_, what)| *what).collect();
    let _ = writeln!(out, "     {}", can.join(", "));
}
