//! Layout of the real types against include/cenote.abi.json. Generated: `make bless`.

use cenote::ffi::types::*;
use std::mem::{align_of, offset_of, size_of};

type Row = (&'static str, &'static str, usize);

#[rustfmt::skip]
const LAYOUT: &[Row] = &[
    ("cenote_error", "size", size_of::<cenote_error>()),
    ("cenote_error", "align", align_of::<cenote_error>()),
    ("cenote_error", ".struct_size", offset_of!(cenote_error, struct_size)),
    ("cenote_error", ".status", offset_of!(cenote_error, status)),
    ("cenote_error", ".backend_code", offset_of!(cenote_error, backend_code)),
    ("cenote_error", ".reserved", offset_of!(cenote_error, reserved)),
    ("cenote_error", ".wanted_bytes", offset_of!(cenote_error, wanted_bytes)),
    ("cenote_error", ".available_bytes", offset_of!(cenote_error, available_bytes)),
    ("cenote_error", ".message", offset_of!(cenote_error, message)),
    ("cenote_runtime_info_t", "size", size_of::<cenote_runtime_info_t>()),
    ("cenote_runtime_info_t", "align", align_of::<cenote_runtime_info_t>()),
    ("cenote_runtime_info_t", ".struct_size", offset_of!(cenote_runtime_info_t, struct_size)),
    ("cenote_runtime_info_t", ".abi_version", offset_of!(cenote_runtime_info_t, abi_version)),
    ("cenote_runtime_info_t", ".backend", offset_of!(cenote_runtime_info_t, backend)),
    ("cenote_runtime_info_t", ".driver_version", offset_of!(cenote_runtime_info_t, driver_version)),
    ("cenote_runtime_info_t", ".device_count", offset_of!(cenote_runtime_info_t, device_count)),
    ("cenote_runtime_info_t", ".reserved", offset_of!(cenote_runtime_info_t, reserved)),
    ("cenote_option_t", "size", size_of::<cenote_option_t>()),
    ("cenote_option_t", "align", align_of::<cenote_option_t>()),
    ("cenote_option_t", ".struct_size", offset_of!(cenote_option_t, struct_size)),
    ("cenote_option_t", ".source", offset_of!(cenote_option_t, source)),
    ("cenote_option_t", ".name", offset_of!(cenote_option_t, name)),
    ("cenote_option_t", ".value", offset_of!(cenote_option_t, value)),
    ("cenote_option_t", ".help", offset_of!(cenote_option_t, help)),
    ("cenote_device_info_t", "size", size_of::<cenote_device_info_t>()),
    ("cenote_device_info_t", "align", align_of::<cenote_device_info_t>()),
    ("cenote_device_info_t", ".struct_size", offset_of!(cenote_device_info_t, struct_size)),
    ("cenote_device_info_t", ".compute_capability", offset_of!(cenote_device_info_t, compute_capability)),
    ("cenote_device_info_t", ".total_bytes", offset_of!(cenote_device_info_t, total_bytes)),
    ("cenote_device_info_t", ".free_bytes", offset_of!(cenote_device_info_t, free_bytes)),
    ("cenote_device_info_t", ".page_bytes", offset_of!(cenote_device_info_t, page_bytes)),
    ("cenote_device_info_t", ".limit_bytes", offset_of!(cenote_device_info_t, limit_bytes)),
    ("cenote_device_info_t", ".host_visible", offset_of!(cenote_device_info_t, host_visible)),
    ("cenote_device_info_t", ".export_fd", offset_of!(cenote_device_info_t, export_fd)),
    ("cenote_device_info_t", ".rdma", offset_of!(cenote_device_info_t, rdma)),
    ("cenote_device_info_t", ".virtual_memory", offset_of!(cenote_device_info_t, virtual_memory)),
    ("cenote_device_info_t", ".name", offset_of!(cenote_device_info_t, name)),
    ("cenote_device_info_t", ".uuid", offset_of!(cenote_device_info_t, uuid)),
    ("cenote_pool_desc", "size", size_of::<cenote_pool_desc>()),
    ("cenote_pool_desc", "align", align_of::<cenote_pool_desc>()),
    ("cenote_pool_desc", ".struct_size", offset_of!(cenote_pool_desc, struct_size)),
    ("cenote_pool_desc", ".kind", offset_of!(cenote_pool_desc, kind)),
    ("cenote_pool_desc", ".device", offset_of!(cenote_pool_desc, device)),
    ("cenote_pool_desc", ".flags", offset_of!(cenote_pool_desc, flags)),
    ("cenote_pool_desc", ".limit_bytes", offset_of!(cenote_pool_desc, limit_bytes)),
    ("cenote_pool_desc", ".initial_bytes", offset_of!(cenote_pool_desc, initial_bytes)),
    ("cenote_pool_desc", ".slack_ppm", offset_of!(cenote_pool_desc, slack_ppm)),
    ("cenote_pool_desc", ".decay_ms", offset_of!(cenote_pool_desc, decay_ms)),
    ("cenote_pool_desc", ".name", offset_of!(cenote_pool_desc, name)),
    ("cenote_trim_result", "size", size_of::<cenote_trim_result>()),
    ("cenote_trim_result", "align", align_of::<cenote_trim_result>()),
    ("cenote_trim_result", ".struct_size", offset_of!(cenote_trim_result, struct_size)),
    ("cenote_trim_result", ".reserved", offset_of!(cenote_trim_result, reserved)),
    ("cenote_trim_result", ".returned_bytes", offset_of!(cenote_trim_result, returned_bytes)),
    ("cenote_trim_result", ".pending_bytes", offset_of!(cenote_trim_result, pending_bytes)),
    ("cenote_trim_result", ".kept_bytes", offset_of!(cenote_trim_result, kept_bytes)),
    ("cenote_alloc_desc", "size", size_of::<cenote_alloc_desc>()),
    ("cenote_alloc_desc", "align", align_of::<cenote_alloc_desc>()),
    ("cenote_alloc_desc", ".struct_size", offset_of!(cenote_alloc_desc, struct_size)),
    ("cenote_alloc_desc", ".flags", offset_of!(cenote_alloc_desc, flags)),
    ("cenote_alloc_desc", ".size_bytes", offset_of!(cenote_alloc_desc, size_bytes)),
    ("cenote_alloc_desc", ".align_bytes", offset_of!(cenote_alloc_desc, align_bytes)),
    ("cenote_block_info_t", "size", size_of::<cenote_block_info_t>()),
    ("cenote_block_info_t", "align", align_of::<cenote_block_info_t>()),
    ("cenote_block_info_t", ".struct_size", offset_of!(cenote_block_info_t, struct_size)),
    ("cenote_block_info_t", ".kind", offset_of!(cenote_block_info_t, kind)),
    ("cenote_block_info_t", ".device", offset_of!(cenote_block_info_t, device)),
    ("cenote_block_info_t", ".pin_count", offset_of!(cenote_block_info_t, pin_count)),
    ("cenote_block_info_t", ".pool", offset_of!(cenote_block_info_t, pool)),
    ("cenote_block_info_t", ".base", offset_of!(cenote_block_info_t, base)),
    ("cenote_block_info_t", ".offset_bytes", offset_of!(cenote_block_info_t, offset_bytes)),
    ("cenote_block_info_t", ".requested_bytes", offset_of!(cenote_block_info_t, requested_bytes)),
    ("cenote_block_info_t", ".usable_bytes", offset_of!(cenote_block_info_t, usable_bytes)),
    ("cenote_block_info_t", ".host_ptr", offset_of!(cenote_block_info_t, host_ptr)),
    ("cenote_block_info_t", ".reservation_base", offset_of!(cenote_block_info_t, reservation_base)),
    ("cenote_block_info_t", ".reservation_bytes", offset_of!(cenote_block_info_t, reservation_bytes)),
    ("cenote_block_info_t", ".segment_count", offset_of!(cenote_block_info_t, segment_count)),
    ("cenote_block_info_t", ".captured", offset_of!(cenote_block_info_t, captured)),
    ("cenote_segment_t", "size", size_of::<cenote_segment_t>()),
    ("cenote_segment_t", "align", align_of::<cenote_segment_t>()),
    ("cenote_segment_t", ".base", offset_of!(cenote_segment_t, base)),
    ("cenote_segment_t", ".size_bytes", offset_of!(cenote_segment_t, size_bytes)),
    ("cenote_segment_t", ".handle", offset_of!(cenote_segment_t, handle)),
    ("cenote_pool_stats_t", "size", size_of::<cenote_pool_stats_t>()),
    ("cenote_pool_stats_t", "align", align_of::<cenote_pool_stats_t>()),
    ("cenote_pool_stats_t", ".struct_size", offset_of!(cenote_pool_stats_t, struct_size)),
    ("cenote_pool_stats_t", ".untrusted", offset_of!(cenote_pool_stats_t, untrusted)),
    ("cenote_pool_stats_t", ".live_bytes", offset_of!(cenote_pool_stats_t, live_bytes)),
    ("cenote_pool_stats_t", ".used_bytes", offset_of!(cenote_pool_stats_t, used_bytes)),
    ("cenote_pool_stats_t", ".pending_bytes", offset_of!(cenote_pool_stats_t, pending_bytes)),
    ("cenote_pool_stats_t", ".cached_bytes", offset_of!(cenote_pool_stats_t, cached_bytes)),
    ("cenote_pool_stats_t", ".held_bytes", offset_of!(cenote_pool_stats_t, held_bytes)),
    ("cenote_pool_stats_t", ".reserved_bytes", offset_of!(cenote_pool_stats_t, reserved_bytes)),
    ("cenote_pool_stats_t", ".peak_live_bytes", offset_of!(cenote_pool_stats_t, peak_live_bytes)),
    ("cenote_pool_stats_t", ".peak_held_bytes", offset_of!(cenote_pool_stats_t, peak_held_bytes)),
    ("cenote_pool_stats_t", ".largest_free_bytes", offset_of!(cenote_pool_stats_t, largest_free_bytes)),
    ("cenote_pool_stats_t", ".live_blocks", offset_of!(cenote_pool_stats_t, live_blocks)),
    ("cenote_pool_stats_t", ".alloc_count", offset_of!(cenote_pool_stats_t, alloc_count)),
    ("cenote_pool_stats_t", ".free_count", offset_of!(cenote_pool_stats_t, free_count)),
    ("cenote_pool_stats_t", ".driver_create_count", offset_of!(cenote_pool_stats_t, driver_create_count)),
    ("cenote_pool_stats_t", ".driver_map_count", offset_of!(cenote_pool_stats_t, driver_map_count)),
    ("cenote_pool_stats_t", ".driver_access_count", offset_of!(cenote_pool_stats_t, driver_access_count)),
    ("cenote_pool_stats_t", ".driver_unmap_count", offset_of!(cenote_pool_stats_t, driver_unmap_count)),
    ("cenote_pool_stats_t", ".driver_release_count", offset_of!(cenote_pool_stats_t, driver_release_count)),
    ("cenote_pool_stats_t", ".driver_time_ns", offset_of!(cenote_pool_stats_t, driver_time_ns)),
    ("cenote_pool_stats_t", ".event_record_count", offset_of!(cenote_pool_stats_t, event_record_count)),
    ("cenote_pool_stats_t", ".event_query_count", offset_of!(cenote_pool_stats_t, event_query_count)),
    ("cenote_pool_stats_t", ".retry_count", offset_of!(cenote_pool_stats_t, retry_count)),
    ("cenote_pool_stats_t", ".oom_count", offset_of!(cenote_pool_stats_t, oom_count)),
    ("cenote_pool_stats_t", ".dropped_count", offset_of!(cenote_pool_stats_t, dropped_count)),
    ("cenote_pool_stats_t", ".takeover_count", offset_of!(cenote_pool_stats_t, takeover_count)),
    ("cenote_mapping_event", "size", size_of::<cenote_mapping_event>()),
    ("cenote_mapping_event", "align", align_of::<cenote_mapping_event>()),
    ("cenote_mapping_event", ".struct_size", offset_of!(cenote_mapping_event, struct_size)),
    ("cenote_mapping_event", ".mapped", offset_of!(cenote_mapping_event, mapped)),
    ("cenote_mapping_event", ".device", offset_of!(cenote_mapping_event, device)),
    ("cenote_mapping_event", ".reserved", offset_of!(cenote_mapping_event, reserved)),
    ("cenote_mapping_event", ".base", offset_of!(cenote_mapping_event, base)),
    ("cenote_mapping_event", ".size_bytes", offset_of!(cenote_mapping_event, size_bytes)),
    ("cenote_mapping_event", ".handle", offset_of!(cenote_mapping_event, handle)),
    ("cenote_backend_vtable", "size", size_of::<cenote_backend_vtable>()),
    ("cenote_backend_vtable", "align", align_of::<cenote_backend_vtable>()),
    ("cenote_backend_vtable", ".struct_size", offset_of!(cenote_backend_vtable, struct_size)),
    ("cenote_backend_vtable", ".device_count", offset_of!(cenote_backend_vtable, device_count)),
    ("cenote_backend_vtable", ".page_bytes", offset_of!(cenote_backend_vtable, page_bytes)),
    ("cenote_backend_vtable", ".total_bytes", offset_of!(cenote_backend_vtable, total_bytes)),
    ("cenote_backend_vtable", ".host_visible", offset_of!(cenote_backend_vtable, host_visible)),
    ("cenote_backend_vtable", ".asynchronous", offset_of!(cenote_backend_vtable, asynchronous)),
    ("cenote_backend_vtable", ".user", offset_of!(cenote_backend_vtable, user)),
    ("cenote_backend_vtable", ".reserve", offset_of!(cenote_backend_vtable, reserve)),
    ("cenote_backend_vtable", ".unreserve", offset_of!(cenote_backend_vtable, unreserve)),
    ("cenote_backend_vtable", ".create", offset_of!(cenote_backend_vtable, create)),
    ("cenote_backend_vtable", ".release", offset_of!(cenote_backend_vtable, release)),
    ("cenote_backend_vtable", ".map", offset_of!(cenote_backend_vtable, map)),
    ("cenote_backend_vtable", ".unmap", offset_of!(cenote_backend_vtable, unmap)),
    ("cenote_backend_vtable", ".mem_info", offset_of!(cenote_backend_vtable, mem_info)),
    ("cenote_backend_vtable", ".event_create", offset_of!(cenote_backend_vtable, event_create)),
    ("cenote_backend_vtable", ".event_destroy", offset_of!(cenote_backend_vtable, event_destroy)),
    ("cenote_backend_vtable", ".event_record", offset_of!(cenote_backend_vtable, event_record)),
    ("cenote_backend_vtable", ".event_query", offset_of!(cenote_backend_vtable, event_query)),
    ("cenote_backend_vtable", ".synchronize", offset_of!(cenote_backend_vtable, synchronize)),
];

fn wrong(json: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, what, real) in LAYOUT {
        let structs = json["structs"].as_array().expect("structs");
        let entry = structs.iter().find(|s| s["name"] == *name).expect(name);
        let said = match what.strip_prefix('.') {
            Some(field) => {
                let fields = entry["fields"].as_array().expect(name);
                fields.iter().find(|f| f["name"] == field).expect(what)["offset"].as_u64()
            }
            None => entry[*what].as_u64(),
        };
        if said != Some(*real as u64) {
            found.push(format!("{name} {what}: {real}, the JSON says {said:?}"));
        }
    }
    found
}

fn json() -> serde_json::Value {
    serde_json::from_str(include_str!("../include/cenote.abi.json")).expect("JSON")
}

#[test]
fn the_json_has_the_layout_of_the_real_types() {
    assert_eq!(wrong(&json()), Vec::<String>::new());
}

#[test]
fn a_wrong_layout_is_rejected() {
    let mut bad = json();
    bad["structs"][0]["fields"][1]["offset"] = 99.into();
    bad["structs"][0]["size"] = 1.into();
    assert_eq!(wrong(&bad).len(), 2);
}
