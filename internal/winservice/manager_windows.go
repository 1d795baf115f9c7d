package winservice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// poll is how often a pending state is looked at; NotifyServiceStatusChange would need an alertable thread.
const poll = 50 * time.Millisecond

// servicesKey is where the SCM keeps its definitions; Environment has no API.
const servicesKey = `SYSTEM\CurrentControlSet\Services\`

// controlManager is the machine's Service Control Manager.
type controlManager struct{}

// Open gives the machine's Service Control Manager.
func Open() Services { return controlManager{} }

// with opens the service for f. It gives a NotFoundError where there is none.
func with(name string, f func(*mgr.Service) error) error {
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("service control manager: %w", err)
	}
	defer manager.Disconnect()
	service, err := manager.OpenService(name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return &NotFoundError{name}
	}
	if err != nil {
		return fmt.Errorf("service %s: %w", name, err)
	}
	defer service.Close()
	if err := f(service); err != nil {
		return fmt.Errorf("service %s: %w", name, err)
	}
	return nil
}

func isNotFound(err error) bool {
	var notFound *NotFoundError
	return errors.As(err, &notFound)
}

var startTypes = map[uint32]string{
	windows.SERVICE_AUTO_START: StartAuto, windows.SERVICE_DEMAND_START: StartManual, windows.SERVICE_DISABLED: StartDisabled,
}

// delayed is added to the start type where Windows starts the service late.
const delayed = "-delayed"

func (controlManager) Config(name string) (*Config, error) {
	config := &Config{}
	err := with(name, func(service *mgr.Service) error {
		have, err := service.Config()
		if err != nil {
			return err
		}
		config.DisplayName, config.Description = have.DisplayName, have.Description
		config.CommandLine, config.Account = have.BinaryPathName, Account(have.ServiceStartName)
		config.Dependencies = have.Dependencies
		config.StartType = startTypes[have.StartType]
		if have.DelayedAutoStart {
			config.StartType += delayed
		}
		if config.Recovery, err = recovery(service); err != nil {
			return err
		}
		config.Environment, err = environment(name)
		return err
	})
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return config, nil
}

func recovery(service *mgr.Service) (Recovery, error) {
	var r Recovery
	actions, err := service.RecoveryActions()
	if err != nil {
		return r, fmt.Errorf("recovery actions: %w", err)
	}
	for _, action := range actions {
		if action.Type == mgr.ServiceRestart {
			r.Restarts = append(r.Restarts, action.Delay)
		}
	}
	period, err := service.ResetPeriod()
	if err != nil {
		return r, fmt.Errorf("recovery actions: %w", err)
	}
	r.ResetAfter = time.Duration(period) * time.Second
	if r.OnErrors, err = service.RecoveryActionsOnNonCrashFailures(); err != nil {
		return r, fmt.Errorf("recovery actions: %w", err)
	}
	return r, nil
}

func environment(name string) ([]string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, servicesKey+name, registry.QUERY_VALUE)
	if err != nil {
		return nil, fmt.Errorf("its registry key: %w", err)
	}
	defer key.Close()
	values, _, err := key.GetStringsValue("Environment")
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	return values, err
}

func (controlManager) Status(name string) (Status, error) {
	var status Status
	err := with(name, func(service *mgr.Service) error {
		have, err := service.Query()
		status = Status{State: states[have.State], PID: have.ProcessId, ExitCode: have.Win32ExitCode}
		return err
	})
	return status, err
}

var states = map[svc.State]string{
	svc.Stopped: Stopped, svc.StartPending: StartPending, svc.StopPending: StopPending, svc.Running: Running,
	svc.ContinuePending: ContinuePending, svc.PausePending: PausePending, svc.Paused: Paused,
}

// Create tries again where the name is still marked for deletion, until the context ends.
func (m controlManager) Create(ctx context.Context, name string, c Config) error {
	for {
		err := create(name, c)
		if err == nil {
			return m.Update(name, c)
		}
		if !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			return fmt.Errorf("service %s: %w", name, err)
		}
		if waitErr := sleep(ctx, 4*poll); waitErr != nil {
			return fmt.Errorf("service %s: a program still holds the deleted one (services.msc?): %w", name, waitErr)
		}
	}
}

func create(name string, c Config) error {
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("service control manager: %w", err)
	}
	defer manager.Disconnect()
	// mgr.CreateService would quote the whole command line as one path.
	namePointer, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	commandLine, err := windows.UTF16PtrFromString(c.CommandLine)
	if err != nil {
		return err
	}
	// Disabled until it is complete: a crash in between must not leave a service that starts half defined.
	handle, err := windows.CreateService(manager.Handle, namePointer, namePointer, windows.SERVICE_ALL_ACCESS,
		windows.SERVICE_WIN32_OWN_PROCESS, windows.SERVICE_DISABLED, windows.SERVICE_ERROR_NORMAL, commandLine, nil, nil, nil, nil, nil)
	if err != nil {
		return err
	}
	return windows.CloseServiceHandle(handle)
}

func (controlManager) Update(name string, c Config) error {
	startType, isDelayed := strings.CutSuffix(c.StartType, delayed)
	var start uint32
	for number, text := range startTypes {
		if text == startType {
			start = number
		}
	}
	if start == 0 {
		return fmt.Errorf("service %s: its start type %q is unknown", name, c.StartType)
	}
	return with(name, func(service *mgr.Service) error {
		if err := setRecovery(service, c.Recovery); err != nil {
			return fmt.Errorf("recovery actions: %w", err)
		}
		if err := setEnvironment(name, c.Environment); err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		return service.UpdateConfig(mgr.Config{
			ServiceType: windows.SERVICE_WIN32_OWN_PROCESS, StartType: start, ErrorControl: mgr.ErrorNormal,
			BinaryPathName: c.CommandLine, Dependencies: c.Dependencies, ServiceStartName: Account(c.Account),
			DisplayName: c.DisplayName, Description: c.Description, DelayedAutoStart: isDelayed,
		})
	})
}

func setRecovery(service *mgr.Service, r Recovery) error {
	if len(r.Restarts) == 0 {
		return service.ResetRecoveryActions()
	}
	var actions []mgr.RecoveryAction
	for _, delay := range r.Restarts {
		actions = append(actions, mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: delay})
	}
	seconds := min(r.ResetAfter/time.Second, math.MaxUint32)
	if err := service.SetRecoveryActions(actions, uint32(seconds)); err != nil {
		return err
	}
	return service.SetRecoveryActionsOnNonCrashFailures(r.OnErrors)
}

func setEnvironment(name string, values []string) error {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, servicesKey+name, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer key.Close()
	if len(values) > 0 {
		return key.SetStringsValue("Environment", values)
	}
	if err := key.DeleteValue("Environment"); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return err
	}
	return nil
}

func (m controlManager) Delete(ctx context.Context, name string) error {
	err := with(name, func(service *mgr.Service) error {
		err := service.Delete()
		if errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			return nil
		}
		return err
	})
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// It is gone when the last handle is closed and its process has ended.
	for {
		if _, err := m.Status(name); isNotFound(err) || errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			return nil
		}
		if err := sleep(ctx, poll); err != nil {
			return fmt.Errorf("service %s: it was deleted and is still there: %w", name, err)
		}
	}
}

func (m controlManager) Start(ctx context.Context, name string) error {
	err := with(name, func(service *mgr.Service) error {
		err := service.Start()
		if errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return nil
		}
		if errors.Is(err, windows.ERROR_SERVICE_REQUEST_TIMEOUT) || errors.Is(err, windows.ERROR_PROCESS_ABORTED) {
			return fmt.Errorf("%w: %w", ErrDied, err)
		}
		return err
	})
	if err != nil {
		return err
	}
	for {
		status, err := m.Status(name)
		if err != nil || status.State != StartPending {
			return err
		}
		if err := sleep(ctx, poll); err != nil {
			return fmt.Errorf("service %s: it is still starting: %w", name, err)
		}
	}
}

func (controlManager) Dependants(name string) ([]string, error) {
	var dependants []string
	err := with(name, func(service *mgr.Service) error {
		active, err := service.ListDependentServices(svc.Active)
		dependants = active
		return err
	})
	if isNotFound(err) {
		return nil, nil
	}
	slices.Reverse(dependants) // they are listed in the order in which to stop them
	return dependants, err
}

func (m controlManager) Stop(ctx context.Context, name string) ([]string, error) {
	dependants, err := m.Dependants(name)
	if err != nil {
		return nil, err
	}
	for _, dependant := range slices.Backward(dependants) {
		if err := m.stop(ctx, dependant); err != nil {
			return dependants, err
		}
	}
	err = m.stop(ctx, name)
	if isNotFound(err) {
		return nil, nil
	}
	return dependants, err
}

// stop asks again while the service is in a state that takes no requests.
func (m controlManager) stop(ctx context.Context, name string) error {
	for {
		status, err := m.Status(name)
		if err != nil {
			return err
		}
		if status.State == Stopped {
			return nil
		}
		if status.State != StopPending {
			err := askToStop(ctx, name)
			if err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) &&
				!errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL) {
				return err
			}
		}
		if err := sleep(ctx, poll); err != nil {
			return fmt.Errorf("service %s: it is still %s: %w", name, status.State, err)
		}
	}
}

// askToStop does not wait for the SCM longer than the context lets it: of a process that is frozen the call returns only after 30 s.
func askToStop(ctx context.Context, name string) error {
	done := make(chan error, 1)
	go func() {
		done <- with(name, func(service *mgr.Service) error {
			_, err := service.Control(svc.Stop)
			if errors.Is(err, windows.ERROR_BROKEN_PIPE) {
				return nil // its process ended before the SCM had its answer: that it stops is what was asked for, and is looked at next
			}
			return err
		})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("service %s: it does not answer the request to stop: %w", name, ctx.Err())
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
