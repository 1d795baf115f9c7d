//go:build !windows

package winservice

import (
	"context"
	"errors"
)

// errNotWindows is what everything answers elsewhere.
var errNotWindows = errors.New("there are no Windows services on this system")

type none struct{}

// Open gives a Service Control Manager that refuses everything: this is not Windows.
func Open() Services { return none{} }

// OpenProcesses likewise.
func OpenProcesses() Processes { return none{} }

func (none) Config(string) (*Config, error)                 { return nil, errNotWindows }
func (none) Status(string) (Status, error)                  { return Status{}, errNotWindows }
func (none) Create(context.Context, string, Config) error   { return errNotWindows }
func (none) Update(string, Config) error                    { return errNotWindows }
func (none) Delete(context.Context, string) error           { return errNotWindows }
func (none) Dependants(string) ([]string, error)            { return nil, errNotWindows }
func (none) Start(context.Context, string) error            { return errNotWindows }
func (none) Stop(context.Context, string) ([]string, error) { return nil, errNotWindows }
func (none) Under(string) ([]Process, error)                { return nil, errNotWindows }
func (none) Wait(context.Context, []Process) error          { return errNotWindows }
func (none) Kill([]Process) error                           { return errNotWindows }
