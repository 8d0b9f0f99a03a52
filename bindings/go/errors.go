package cenote

import "fmt"

// Status is one cause of failure. Each is an error by itself, for errors.Is: ErrLimit and the
// others.
type Status int32

// Error gives the status and its meaning.
func (s Status) Error() string {
	if texts, known := statusTexts[s]; known {
		return texts[0] + ": " + texts[1]
	}
	return fmt.Sprintf("cenote status %d", int32(s))
}

// Name is the C name of the status.
func (s Status) Name() string {
	if texts, known := statusTexts[s]; known {
		return texts[0]
	}
	return "CENOTE_E_UNKNOWN"
}

// Error is a failed call with the figures behind it.
type Error struct {
	// Status is the cause; errors.Is finds it.
	Status Status
	// BackendCode is the driver's own code, 0 if none.
	BackendCode int
	// WantedBytes is 0 if that says nothing here.
	WantedBytes uint64
	// AvailableBytes is what was there, or the limit that refused; 0 if that says nothing here.
	AvailableBytes uint64
	// Message is one line: what, where and what to do.
	Message string
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Status.Error()
	}
	return e.Message
}

// Unwrap gives the status, which errors.Is compares: ErrLimit, ErrForeignPointer, …
func (e *Error) Unwrap() error {
	return e.Status
}

// Is makes every refusal for lack of memory an ErrOutOfMemory too, whatever refused it: a limit,
// the address space, a flag, or the host's own memory. The field Status tells them apart.
func (e *Error) Is(target error) bool {
	return target == ErrOutOfMemory && e.Status/1000 == ErrOutOfMemory/1000
}
