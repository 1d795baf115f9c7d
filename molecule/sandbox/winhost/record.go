package winhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// record is what host.json says of a started host. Its first process and that process' start time together name it for certain: a number
// alone may belong to another process by now.
type record struct {
	Name    string    `json:"name"`
	Address string    `json:"address"`
	Veth    string    `json:"veth"`
	PID     int       `json:"pid"`
	Ticks   uint64    `json:"startTicks"`
	Started time.Time `json:"started"`
	// What a boot after a power cut needs, which may be asked for by a process that knows the directory alone.
	Bridge      string   `json:"bridge"`
	MAC         string   `json:"mac"`
	Environment []string `json:"environment"`
}

const recordFile = "host.json"

func (h *Host) save(r record) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(h.path(recordFile), string(content)+"\n", 0o644)
}

// recorded returns what was started last and whether it still runs.
func (h *Host) recorded() (r record, runs bool, err error) {
	content, err := os.ReadFile(h.path(recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return record{}, false, fmt.Errorf("host %s: %s: %w: remove the host's directory", h.Name, h.path(recordFile), err)
	}
	return r, alive(r), nil
}

// running is recorded for those that need a running host.
func (h *Host) running() (record, error) {
	r, runs, err := h.recorded()
	if err == nil && !runs {
		err = fmt.Errorf("host %s: not running: start it first", h.Name)
	}
	return r, err
}

// alive reports whether the recorded process is there; one that has ended and waits for its parent is not.
func alive(r record) bool {
	state, ticks, err := processState(r.PID)
	return err == nil && ticks == r.Ticks && state != "Z" && state != "X"
}

// processState reads /proc/PID/stat: the state's letter and the start time in clock ticks since the machine's boot, see proc(5).
func processState(pid int) (state string, ticks uint64, err error) {
	if pid <= 0 {
		return "", 0, errors.New("no process")
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	_, rest, ok := strings.Cut(string(content[strings.LastIndexByte(string(content), ')'):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", 0, fmt.Errorf("process %d: unexpected stat line", pid)
	}
	ticks, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0], ticks, err
}
