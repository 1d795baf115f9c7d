package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
)

const (
	// suspicious and wrong are differences between the clocks: certificates and tokens have some minutes of tolerance.
	suspicious = 30 * time.Second
	wrong      = 5 * time.Minute
)

// startSlowChecks asks the network while the machine is looked at.
func (e *examination) startSlowChecks(ctx context.Context) <-chan []nodereport.Check {
	done := make(chan []nodereport.Check, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		done <- e.cluster(ctx)
	}()
	return done
}

func (e *examination) cluster(ctx context.Context) []nodereport.Check {
	if e.Request.APIServer == "" {
		return nil
	}
	server, err := url.Parse(e.Request.APIServer)
	if err != nil || server.Hostname() == "" {
		return []nodereport.Check{fail("api_server", reason.ArgumentInvalid, fmt.Sprintf("%q is not a URL", e.Request.APIServer), "")}
	}
	checks := []nodereport.Check{e.dns(ctx, server.Hostname())}
	if checks[0].Result == nodereport.Fail {
		return checks
	}
	clusterTime, err := e.Host.Ask(ctx, e.Request.APIServer, []byte(e.Request.APIServerCA))
	checks = append(checks, e.clock(clusterTime))
	return append(checks, apiServer(server.Host, err))
}

func (e *examination) dns(ctx context.Context, name string) nodereport.Check {
	if _, err := netip.ParseAddr(name); err == nil {
		return pass("dns", name+" is an address")
	}
	addresses, err := e.Host.Resolve(ctx, name)
	if err != nil {
		return fail("dns", reason.DNSFailed, fmt.Sprintf("%s cannot be resolved: %v", name, err), "")
	}
	return pass("dns", name+" is "+strings.Join(addresses, ", "))
}

func apiServer(host string, err error) nodereport.Check {
	if err == nil {
		return pass("api_server", host+" answers, and its certificate is the cluster's")
	}
	var known *reason.Error
	if errors.As(err, &known) {
		return fail("api_server", known.Code, known.Object+": "+known.Problem, known.Remedy)
	}
	return fail("api_server", reason.APIUnreachable, host+": "+err.Error(), "")
}

// clock compares with the API server's own time, else with what the control host saw of it.
func (e *examination) clock(clusterTime time.Time) nodereport.Check {
	const name = "clock"
	if clusterTime.IsZero() {
		var err error
		if clusterTime, err = time.Parse(time.RFC3339, e.Request.APITime); err != nil {
			return pass(name, "there was no other clock to compare it with")
		}
	}
	difference := e.Host.Now().Sub(clusterTime).Round(time.Second)
	seen := fmt.Sprintf("it differs from the cluster's by %s", difference.Abs())
	switch {
	case difference.Abs() > wrong:
		return fail(name, reason.ClockSkew, seen, "")
	case difference.Abs() > suspicious:
		return warn(name, reason.ClockSkew, seen, "")
	}
	return pass(name, seen)
}
