// Command servicestates prints the states of the services that are named as arguments, or of all that start automatically, as a JSON object
// of name to state ("running", "stopped", "start pending", ...; "absent" for one that is not there).
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

var names = map[svc.State]string{
	svc.Stopped: "stopped", svc.StartPending: "start pending", svc.StopPending: "stop pending", svc.Running: "running",
	svc.ContinuePending: "continue pending", svc.PausePending: "pause pending", svc.Paused: "paused",
}

func main() {
	states, err := query(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(states)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "servicestates:", err)
		os.Exit(1)
	}
}

func query(wanted []string) (map[string]string, error) {
	manager, err := mgr.Connect()
	if err != nil {
		return nil, fmt.Errorf("service manager: %w", err)
	}
	defer manager.Disconnect()
	automatic := len(wanted) == 0
	if automatic {
		if wanted, err = manager.ListServices(); err != nil {
			return nil, fmt.Errorf("service manager: %w", err)
		}
	}
	states := map[string]string{}
	for _, name := range wanted {
		service, err := manager.OpenService(name)
		if err != nil {
			states[name] = "absent"
			continue
		}
		config, err := service.Config()
		if automatic && (err != nil || config.StartType != mgr.StartAutomatic) {
			service.Close()
			continue
		}
		status, err := service.Query()
		service.Close()
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
		states[name] = names[status.State]
	}
	return states, nil
}
