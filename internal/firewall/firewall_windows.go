package firewall

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"
)

// Constants of netfw.h and icftypes.h.
const (
	protocolTCP  = 6
	directionIn  = 1
	actionAllow  = 1
	allProfiles  = 0x7fffffff
	serviceName  = "MpsSvc"
	sFalse       = 1          // CoInitializeEx: this thread is initialised already
	fileNotFound = 0x80070002 // HRESULT of ERROR_FILE_NOT_FOUND: no rule of that name
)

type policy struct{}

// Open gives the machine's firewall.
func Open() Firewall { return policy{} }

// withRules calls f with the collection INetFwRules.
func withRules(f func(rules *ole.IDispatch) error) error {
	present, err := servicePresent()
	if err != nil {
		return err
	}
	if !present {
		return ErrAbsent
	}
	runtime.LockOSThread() // COM's initialisation belongs to the thread
	defer runtime.UnlockOSThread()
	if err := ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED); err != nil {
		var code *ole.OleError
		if !errors.As(err, &code) || code.Code() != sFalse {
			return fmt.Errorf("firewall: start COM: %w", err)
		}
	}
	defer ole.CoUninitialize()
	unknown, err := oleutil.CreateObject("HNetCfg.FwPolicy2")
	if err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	defer unknown.Release()
	dispatch, err := unknown.QueryInterface(ole.IID_IDispatch)
	if err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	defer dispatch.Release()
	rules, err := oleutil.GetProperty(dispatch, "Rules")
	if err != nil {
		return fmt.Errorf("firewall: its rules: %w", err)
	}
	defer rules.Clear()
	return f(rules.ToIDispatch())
}

func servicePresent() (bool, error) {
	manager, err := mgr.Connect()
	if err != nil {
		return false, fmt.Errorf("service control manager: %w", err)
	}
	defer manager.Disconnect()
	service, err := manager.OpenService(serviceName)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("service %s: %w", serviceName, err)
	}
	return true, service.Close()
}

func (policy) Rule(name string) (*Rule, error) {
	var found *Rule
	err := withRules(func(rules *ole.IDispatch) error {
		item, err := oleutil.CallMethod(rules, "Item", name)
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("firewall rule %s: %w", name, err)
		}
		defer item.Clear()
		found, err = read(item.ToIDispatch())
		return err
	})
	return found, err
}

// isNotFound: the failed call reports DISP_E_EXCEPTION and, in it, the real code.
func isNotFound(err error) bool {
	var code *ole.OleError
	if !errors.As(err, &code) {
		return false
	}
	if uint32(code.Code()) == fileNotFound {
		return true
	}
	if exception, ok := code.SubError().(ole.EXCEPINFO); ok { //nolint:errorlint // COM puts it there itself, never wrapped
		return exception.SCODE() == fileNotFound
	}
	return false
}

// reader takes properties until one fails.
type reader struct {
	object *ole.IDispatch
	err    error
}

func (r *reader) value(name string) any {
	if r.err != nil {
		return nil
	}
	variant, err := oleutil.GetProperty(r.object, name)
	if err != nil {
		r.err = fmt.Errorf("firewall rule: its %s: %w", name, err)
		return nil
	}
	defer variant.Clear()
	return variant.Value()
}

func (r *reader) text(name string) string {
	text, _ := r.value(name).(string)
	return text
}

func (r *reader) number(name string) int {
	number, err := strconv.Atoi(fmt.Sprint(r.value(name)))
	if err != nil {
		return -1
	}
	return number
}

func read(object *ole.IDispatch) (*Rule, error) {
	r := &reader{object: object}
	port, err := strconv.Atoi(r.text("LocalPorts"))
	if err != nil {
		port = -1 // a range or a list: another than ours
	}
	rule := &Rule{
		Name: r.text("Name"), Description: r.text("Description"), Port: port,
		Allow: r.number("Action") == actionAllow, Inbound: r.number("Direction") == directionIn, TCP: r.number("Protocol") == protocolTCP,
		AllProfiles: r.number("Profiles") == allProfiles,
	}
	rule.Enabled, _ = r.value("Enabled").(bool)
	return rule, r.err
}

func (p policy) Put(rule Rule) error {
	if err := p.Delete(rule.Name); err != nil {
		return err
	}
	return withRules(func(rules *ole.IDispatch) error {
		unknown, err := oleutil.CreateObject("HNetCfg.FWRule")
		if err != nil {
			return fmt.Errorf("firewall rule %s: %w", rule.Name, err)
		}
		defer unknown.Release()
		object, err := unknown.QueryInterface(ole.IID_IDispatch)
		if err != nil {
			return fmt.Errorf("firewall rule %s: %w", rule.Name, err)
		}
		defer object.Release()
		if err := write(object, rule); err != nil {
			return err
		}
		if _, err := oleutil.CallMethod(rules, "Add", object); err != nil {
			return fmt.Errorf("firewall rule %s: add it: %w", rule.Name, err)
		}
		return nil
	})
}

// write sets the protocol before the ports, which the interface insists on.
func write(object *ole.IDispatch, rule Rule) error {
	choose := func(yes bool, then, otherwise int32) int32 {
		if yes {
			return then
		}
		return otherwise
	}
	for _, property := range []struct {
		name  string
		value any
	}{
		{"Name", rule.Name},
		{"Description", rule.Description},
		{"Protocol", choose(rule.TCP, protocolTCP, 17)},
		{"LocalPorts", strconv.Itoa(rule.Port)},
		{"Direction", choose(rule.Inbound, directionIn, 2)},
		{"Action", choose(rule.Allow, actionAllow, 0)},
		{"Profiles", choose(rule.AllProfiles, allProfiles, 1)},
		{"Enabled", rule.Enabled},
	} {
		if _, err := oleutil.PutProperty(object, property.name, property.value); err != nil {
			return fmt.Errorf("firewall rule %s: its %s: %w", rule.Name, property.name, err)
		}
	}
	return nil
}

// Delete removes every rule of the name: Windows allows several, and Remove takes one at a time.
func (p policy) Delete(name string) error {
	for range 16 {
		rule, err := p.Rule(name)
		if err != nil || rule == nil {
			return err
		}
		err = withRules(func(rules *ole.IDispatch) error {
			_, err := oleutil.CallMethod(rules, "Remove", name)
			return err
		})
		if err != nil {
			return fmt.Errorf("firewall rule %s: remove it: %w", name, err)
		}
	}
	return fmt.Errorf("firewall rule %s: it comes back again and again", name)
}
