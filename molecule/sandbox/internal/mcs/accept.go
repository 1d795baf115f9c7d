package mcs

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Versions of Ignition's specification that matter here. The native one is what the cluster's MachineConfigs are written in:
// 3.5 since OpenShift 4.19.
const (
	specTwo     = "2.2.0"
	nativeMinor = 5
)

const ignitionType = "application/vnd.coreos.ignition+json"

// refusal is an answer other than a configuration.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

// negotiate picks the specification version for an Accept header, as the Machine Config Server of a 5.0 cluster does:
// 2.2.0 for whoever does not ask for Ignition, the version asked for from 3.1 to the native one, the native one above it.
// It answers 400 for versions that never existed for it and 500 for 3.0.0, which it takes for Ignition but cannot convert to.
func negotiate(accept string) (string, error) {
	if strings.TrimSpace(accept) == "" {
		return specTwo, nil
	}
	wishes, err := parseAccept(accept)
	if err != nil {
		return "", &refusal{http.StatusBadRequest, err.Error()}
	}
	for _, wish := range wishes {
		switch {
		case wish.kind == ignitionType && wish.version != "":
			return pickVersion(wish.version)
		case wish.kind == "*/*" || wish.kind == "application/*":
			return specTwo, nil
		}
	}
	return "", &refusal{http.StatusBadRequest, fmt.Sprintf("unsupported media type in Accept header %q", accept)}
}

func pickVersion(version string) (string, error) {
	major, minor, err := parseVersion(version)
	if err != nil {
		return "", &refusal{http.StatusBadRequest, err.Error()}
	}
	switch {
	case major == 2 && minor >= 2:
		return specTwo, nil
	case major == 3 && minor == 0:
		return "", &refusal{http.StatusInternalServerError, "no conversion to Ignition 3.0.0"}
	case major == 3:
		return fmt.Sprintf("3.%d.0", min(minor, nativeMinor)), nil
	}
	return "", &refusal{http.StatusBadRequest, fmt.Sprintf("unsupported Ignition version %s", version)}
}

func parseVersion(text string) (major, minor int, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return 0, 0, fmt.Errorf("malformed Ignition version %q", text)
	}
	numbers := make([]int, 3)
	for i, part := range parts {
		if numbers[i], err = strconv.Atoi(part); err != nil || numbers[i] < 0 {
			return 0, 0, fmt.Errorf("malformed Ignition version %q", text)
		}
	}
	return numbers[0], numbers[1], nil
}

type wish struct {
	kind    string
	version string
	quality float64
}

// parseAccept returns what the client accepts, best first.
func parseAccept(header string) ([]wish, error) {
	var wishes []wish
	for _, part := range strings.Split(header, ",") {
		kind, parameters, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("malformed Accept header %q: %w", header, err)
		}
		one := wish{kind: kind, version: parameters["version"], quality: 1}
		if text, has := parameters["q"]; has {
			if one.quality, err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("malformed quality in Accept header %q: %w", header, err)
			}
		}
		wishes = append(wishes, one)
	}
	slices.SortStableFunc(wishes, func(a, b wish) int {
		switch {
		case a.quality > b.quality:
			return -1
		case a.quality < b.quality:
			return 1
		}
		return 0
	})
	return wishes, nil
}
