// Replay a list of operations through the Go binding and say what it cost.
//
//	replay FILE       each line "+ ID BYTES" or "- ID"; see `cenote trace convert --to ops`
//
// One line comes out: operations, peak of live and held bytes, their ratio, time an operation.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"cenote"
)

type operation struct {
	slot     int
	bytes    uint64
	allocate bool
}

// reader turns lines into operations; each block gets a slot.
type reader struct {
	operations []operation
	live       map[string]int
	slots      int
}

var errLine = errors.New("expected '+ ID BYTES' of a new block or '- ID' of a live one")

func (r *reader) add(words []string) error {
	slot, isLive := 0, false
	if len(words) > 1 {
		slot, isLive = r.live[words[1]]
	}
	switch {
	case len(words) == 3 && words[0] == "+" && !isLive:
		bytes, err := strconv.ParseUint(words[2], 10, 64)
		if err != nil {
			return errLine
		}
		r.operations = append(r.operations, operation{r.slots, bytes, true})
		r.live[words[1]] = r.slots
		r.slots++
	case len(words) == 2 && words[0] == "-" && isLive:
		r.operations = append(r.operations, operation{slot: slot})
		delete(r.live, words[1])
	default:
		return errLine
	}
	return nil
}

func read(path string) (*reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	made := &reader{live: map[string]int{}}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := made.add(words); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(made.operations) == 0 {
		return nil, fmt.Errorf("%s: the file has no operations", path)
	}
	return made, nil
}

// run runs every operation and gives the time it took.
func run(todo *reader, pool *cenote.Pool) (time.Duration, []*cenote.Block, error) {
	blocks := make([]*cenote.Block, todo.slots)
	start := time.Now()
	for _, op := range todo.operations {
		var err error
		if op.allocate {
			blocks[op.slot], err = pool.Alloc(op.bytes, cenote.DefaultStream)
		} else {
			err = blocks[op.slot].Close()
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return time.Since(start), blocks, nil
}

func replay(path string) error {
	todo, err := read(path)
	if err != nil {
		return err
	}
	pool, err := cenote.NewPool(cenote.PoolOptions{})
	if err != nil {
		return err
	}
	spent, blocks, err := run(todo, pool)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	stats, err := pool.Stats()
	if err != nil {
		return err
	}
	live, held, ratio := float64(stats.PeakLiveBytes), float64(stats.PeakHeldBytes), 1.0
	if live > 0 {
		ratio = held / live
	}
	fmt.Printf("%-8s %9d ops  peak live %10.1f MiB  peak held %10.1f MiB  ratio %6.4f  %8.1f ns/op\n",
		"Go", len(todo.operations), live/(1<<20), held/(1<<20), ratio,
		float64(spent.Nanoseconds())/float64(len(todo.operations)))
	for _, block := range blocks {
		if err := block.Close(); err != nil {
			return err
		}
	}
	return pool.Close()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: replay FILE (lines '+ ID BYTES' and '- ID')")
		os.Exit(2)
	}
	if err := replay(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
