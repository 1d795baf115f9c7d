package state

import "encoding/json"

// Host is a Windows host that was started or is about to be.
type Host struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Dir     string `json:"dir"`
	// Record is the host's own record of what runs (host.json in its folder), so that it can be ended without the folder.
	Record json.RawMessage `json:"record,omitempty"`
}
