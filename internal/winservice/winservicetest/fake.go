// Package winservicetest has a Service Control Manager in memory, for tests of what uses one. It refuses what Windows refuses; that it
// does is checked against the real one by the sandbox's tests, not here.
package winservicetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"wsu.windows/internal/winservice"
)

// Machine is a Service Control Manager and the processes that it started. It implements winservice.Services and winservice.Processes.
type Machine struct {
	// Before is called before every change and every start or stop, with a word about it; it may panic, as a crash.
	Before func(what string)
	// Starts says whether a service's process comes up; nil: always.
	Starts func(c winservice.Config) bool

	mu       sync.Mutex
	services map[string]*service
	nextPID  uint32
}

type service struct {
	config  winservice.Config
	pid     uint32
	running winservice.Config
}

// New makes a machine without services.
func New() *Machine { return &Machine{services: map[string]*service{}, nextPID: 100} }

func (m *Machine) before(what string) {
	if m.Before != nil {
		m.Before(what)
	}
}

func (m *Machine) find(name string) *service { return m.services[strings.ToLower(name)] }

// Config implements winservice.Services.
func (m *Machine) Config(name string) (*winservice.Config, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(name)
	if found == nil {
		return nil, nil
	}
	config := found.config
	return &config, nil
}

// Status implements winservice.Services.
func (m *Machine) Status(name string) (winservice.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(name)
	if found == nil {
		return winservice.Status{}, &winservice.NotFoundError{Name: name}
	}
	if found.pid == 0 {
		return winservice.Status{State: winservice.Stopped}, nil
	}
	return winservice.Status{State: winservice.Running, PID: found.pid}, nil
}

// Create implements winservice.Services.
func (m *Machine) Create(_ context.Context, name string, c winservice.Config) error {
	m.before("create " + name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(name) != nil {
		return fmt.Errorf("service %s: it exists", name)
	}
	m.services[strings.ToLower(name)] = &service{config: c}
	return nil
}

// Update implements winservice.Services. What runs goes on as it was started.
func (m *Machine) Update(name string, c winservice.Config) error {
	m.before("update " + name)
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(name)
	if found == nil {
		return &winservice.NotFoundError{Name: name}
	}
	found.config = c
	return nil
}

// Delete implements winservice.Services.
func (m *Machine) Delete(_ context.Context, name string) error {
	m.before("delete " + name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.find(name); found != nil && found.pid != 0 {
		return errors.New("it runs and stays until it is stopped")
	}
	delete(m.services, strings.ToLower(name))
	return nil
}

// Start implements winservice.Services.
func (m *Machine) Start(_ context.Context, name string) error {
	m.before("start " + name)
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(name)
	switch {
	case found == nil:
		return &winservice.NotFoundError{Name: name}
	case found.pid != 0:
		return nil
	case found.config.StartType == winservice.StartDisabled:
		return fmt.Errorf("service %s: it is disabled", name)
	case m.Starts != nil && !m.Starts(found.config):
		return fmt.Errorf("service %s: %w", name, winservice.ErrDied)
	}
	m.nextPID++
	found.pid, found.running = m.nextPID, found.config
	return nil
}

// Stop implements winservice.Services.
func (m *Machine) Stop(_ context.Context, name string) ([]string, error) {
	m.before("stop " + name)
	m.mu.Lock()
	defer m.mu.Unlock()
	dependants := m.dependants(name)
	for _, dependant := range dependants {
		m.find(dependant).pid = 0
	}
	if found := m.find(name); found != nil {
		found.pid = 0
	}
	return dependants, nil
}

// Dependants implements winservice.Services.
func (m *Machine) Dependants(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dependants(name), nil
}

func (m *Machine) dependants(name string) []string {
	var names []string
	for other, s := range m.services {
		if s.pid != 0 && slices.ContainsFunc(s.config.Dependencies, func(d string) bool { return strings.EqualFold(d, name) }) {
			names = append(names, other)
		}
	}
	slices.Sort(names)
	return names
}

// Boot starts what starts automatically, as after a power cut.
func (m *Machine) Boot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.services {
		s.pid = 0
		if s.config.StartType == winservice.StartAuto && (m.Starts == nil || m.Starts(s.config)) {
			m.nextPID++
			s.pid, s.running = m.nextPID, s.config
		}
	}
}

// Running gives the definition with which the service's process was started, or nil.
func (m *Machine) Running(name string) *winservice.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(name)
	if found == nil || found.pid == 0 {
		return nil
	}
	config := found.running
	return &config
}

// Names gives all services, sorted.
func (m *Machine) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.services {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Under implements winservice.Processes: every word of a running command line that is a path below the folder is a process.
func (m *Machine) Under(folder string) ([]winservice.Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []winservice.Process
	for _, s := range m.services {
		if s.pid == 0 {
			continue
		}
		for word := range strings.FieldsSeq(s.running.CommandLine) {
			if strings.HasPrefix(word, folder) {
				found = append(found, winservice.Process{PID: s.pid, Path: word})
			}
		}
	}
	return found, nil
}

// Wait implements winservice.Processes: a stopped service's process is gone at once.
func (m *Machine) Wait(context.Context, []winservice.Process) error { return nil }

// Kill implements winservice.Processes.
func (m *Machine) Kill(processes []winservice.Process) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.services {
		for _, process := range processes {
			if s.pid == process.PID {
				s.pid = 0
			}
		}
	}
	return nil
}
