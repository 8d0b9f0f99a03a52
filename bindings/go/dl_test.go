//go:build !cenote_link

package cenote_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"cenote"
)

// Run in a process of its own, for the library is opened once.
func TestNoLibrary(t *testing.T) {
	const missing = "/nonexistent/libcenote.so.0"
	if os.Getenv("CENOTE_LIBRARY") == missing {
		want(t, cenote.Load(), cenote.ErrNoLibrary)
		_, err := cenote.NewPool(cenote.PoolOptions{})
		want(t, err, cenote.ErrNoLibrary)
		if !strings.Contains(err.Error(), "CENOTE_LIBRARY") || cenote.Version() != "" {
			t.Errorf("message %q, version %q", err, cenote.Version())
		}
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^TestNoLibrary$", "-test.v")
	command.Env = append(os.Environ(), "CENOTE_LIBRARY="+missing)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
