package cenote

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import "unsafe"

// Backend is what serves the process.
type Backend uint32

func (b Backend) String() string {
	switch b {
	case BackendHost:
		return "host"
	case BackendCUDA:
		return "cuda"
	case BackendVtable:
		return "vtable"
	}
	return "unknown"
}

// Unknown stands for a figure that is not known.
const Unknown = ^uint64(0)

// NoLimit lifts a device's limit.
const NoLimit = ^uint64(0)

// RuntimeInfo is the library and the backend that serves it.
type RuntimeInfo struct {
	ABIVersion    uint32
	Backend       Backend
	DriverVersion uint32
	DeviceCount   int
}

// DeviceInfo is a device. FreeBytes may be Unknown, LimitBytes NoLimit.
type DeviceInfo struct {
	Name              string
	UUID              string
	ComputeCapability uint32
	TotalBytes        uint64
	FreeBytes         uint64
	PageBytes         uint64
	LimitBytes        uint64
	HostVisible       bool
	ExportFD          bool
	RDMA              bool
	VirtualMemory     bool
}

// Option is an option with its effective value, and where that came from: "default", "environment"
// or "configure".
type Option struct {
	Name, Value, Source, Help string
}

// TrimResult is what a trim did.
type TrimResult struct {
	ReturnedBytes uint64
	PendingBytes  uint64
	KeptBytes     uint64
}

func trimResult(c *C.cenote_trim_result) TrimResult {
	return TrimResult{
		uint64(c.returned_bytes), uint64(c.pending_bytes), uint64(c.kept_bytes),
	}
}

// Version is the version of the library, "" without one.
func Version() string {
	return C.GoString(C.cenote_go_version())
}

// Info says what serves the process; it takes no memory.
func Info() (RuntimeInfo, error) {
	var c C.cenote_runtime_info_t
	if err := check(C.cenote_go_runtime_info(&c)); err != nil {
		return RuntimeInfo{}, err
	}
	return RuntimeInfo{
		uint32(c.abi_version), Backend(c.backend), uint32(c.driver_version), int(c.device_count),
	}, nil
}

// Configure sets an option before the first pool exists, for example ("limit", "8GiB").
func Configure(name, value string) error {
	cName, cValue := C.CString(name), C.CString(value)
	defer C.free(unsafe.Pointer(cName))
	defer C.free(unsafe.Pointer(cValue))
	return check(C.cenote_go_configure(cName, cValue))
}

// Options lists every option.
func Options() ([]Option, error) {
	count := uint32(C.cenote_go_option_count())
	if count == 0 {
		return nil, Load()
	}
	sources := [...]string{"default", "environment", "configure"}
	found := make([]Option, 0, count)
	for index := range count {
		var c C.cenote_option_t
		if err := check(C.cenote_go_option_at(C.uint32_t(index), &c)); err != nil {
			return nil, err
		}
		source := sources[min(int(c.source), len(sources)-1)]
		found = append(found, Option{text(c.name[:]), text(c.value[:]), source, text(c.help[:])})
	}
	return found, nil
}

// DeviceCount is the number of devices.
func DeviceCount() (int, error) {
	count, err := take(C.cenote_go_device_count())
	return int(count), err
}

// Device gives the facts of a device; it creates no context.
func Device(index int) (DeviceInfo, error) {
	var c C.cenote_device_info_t
	if err := check(C.cenote_go_device_info(C.int32_t(index), &c)); err != nil {
		return DeviceInfo{}, err
	}
	return DeviceInfo{
		Name:              text(c.name[:]),
		UUID:              text(c.uuid[:]),
		ComputeCapability: uint32(c.compute_capability),
		TotalBytes:        uint64(c.total_bytes),
		FreeBytes:         uint64(c.free_bytes),
		PageBytes:         uint64(c.page_bytes),
		LimitBytes:        uint64(c.limit_bytes),
		HostVisible:       c.host_visible != 0,
		ExportFD:          c.export_fd != 0,
		RDMA:              c.rdma != 0,
		VirtualMemory:     c.virtual_memory != 0,
	}, nil
}

// LimitDevice limits what this process may hold on a device, over all its pools.
func LimitDevice(index int, limitBytes uint64) error {
	return check(C.cenote_go_device_limit(C.int32_t(index), C.uint64_t(limitBytes)))
}

// EmptyCache gives back every idle page of a device; -1 means all devices.
func EmptyCache(device int) (TrimResult, error) {
	var c C.cenote_trim_result
	err := check(C.cenote_go_empty_cache(C.int32_t(device), &c))
	return trimResult(&c), err
}

// Poll does what is due without an allocation: collects finished frees, gives decayed pages back.
func Poll() error {
	return check(C.cenote_go_poll())
}

// Shutdown gives everything back and refuses further work. Optional: a process may simply exit.
func Shutdown() error {
	return check(C.cenote_go_shutdown())
}
