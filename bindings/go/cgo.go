package cenote

// All flags, and nothing else of cgo's set-up elsewhere.

/*
#cgo CFLAGS: -I${SRCDIR}/../../include -I${SRCDIR}/../cpp/include
#cgo LDFLAGS: -ldl -lpthread
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// take turns a call's result into its value or an error. It frees the details that C made.
func take(result C.cenote_go_result) (uint64, error) {
	if result.status == 0 {
		return uint64(result.value), nil
	}
	failure := &Error{Status: Status(result.status)}
	if details := result.details; details != nil {
		failure.BackendCode = int(details.backend_code)
		failure.WantedBytes = uint64(details.wanted_bytes)
		failure.AvailableBytes = uint64(details.available_bytes)
		failure.Message = text(details.message[:])
		C.free(unsafe.Pointer(details))
	}
	return 0, failure
}

// check is take for calls without a value.
func check(result C.cenote_go_result) error {
	_, err := take(result)
	return err
}

// text reads a NUL-terminated array of a C struct.
func text(chars []C.char) string {
	bytes := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		bytes = append(bytes, byte(c))
	}
	return string(bytes)
}

// put writes a text into an array of a C struct, with its NUL; false if it does not fit.
func put(chars []C.char, text string) bool {
	if len(text) >= len(chars) {
		return false
	}
	for i := range len(text) {
		if text[i] == 0 {
			return false
		}
		chars[i] = C.char(text[i])
	}
	chars[len(text)] = 0
	return true
}

// Load opens the library if that has not happened yet. Every other call does so too; this one tells
// beforehand whether there is one (ErrNoLibrary) and whether it fits (ErrABI).
func Load() error {
	return check(C.cenote_go_load())
}

// keep says that an owner is needed until here: its cleanup, which frees a C resource, must not run
// while C still uses that resource. Every method that passes an owner's handle to C ends with it.
func keep(owner any) {
	runtime.KeepAlive(owner)
}
