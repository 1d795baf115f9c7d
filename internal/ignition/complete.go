package ignition

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// fileMode is the mode that the Machine Config Server gives to the files it appends (0644).
const fileMode = 420

// Complete adds to a rendered MachineConfig's spec.config (JSON) what the Machine Config Server appends when it serves it and what a
// node needs: the bootstrap kubeconfig and the kubelet's client CA. A file that is there already is replaced. Nothing else
// changes, and equal input gives equal bytes. A nil kubeletCA keeps the one in the MachineConfig (4.13 and older).
func Complete(machineConfigIgnition, bootstrapKubeconfig, kubeletCA []byte) ([]byte, error) {
	version, err := specVersion(machineConfigIgnition)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(machineConfigIgnition))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil {
		return nil, invalid("Ignition", syntaxProblem(machineConfigIgnition, err))
	}
	storage, ok := doc["storage"].(map[string]any)
	if !ok {
		if doc["storage"] != nil {
			return nil, invalid("Ignition", "its field storage is not an object")
		}
		storage = map[string]any{}
		doc["storage"] = storage
	}
	files, ok := storage["files"].([]any)
	if !ok && storage["files"] != nil {
		return nil, invalid("Ignition", "its field storage.files is not a list")
	}
	if kubeletCA != nil {
		files = putFile(files, newFile(version, KubeletCAPath, kubeletCA))
	}
	storage["files"] = putFile(files, newFile(version, BootstrapKubeconfigPath, bootstrapKubeconfig))
	return json.Marshal(doc) // map keys are sorted
}

func newFile(version, path string, content []byte) map[string]any {
	f := map[string]any{
		"path":      path,
		"mode":      fileMode,
		"overwrite": true,
		"contents":  map[string]any{"source": "data:," + dataurl.Escape(content)},
	}
	if strings.HasPrefix(version, "2.") {
		f["filesystem"] = "root"
	}
	return f
}

// putFile replaces the file of that path, else appends it.
func putFile(files []any, file map[string]any) []any {
	out := make([]any, 0, len(files)+1)
	for _, f := range files {
		if entry, ok := f.(map[string]any); ok && entry["path"] == file["path"] {
			continue
		}
		out = append(out, f)
	}
	return append(out, file)
}
