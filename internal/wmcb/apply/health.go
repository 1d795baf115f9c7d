package apply

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
)

const (
	// healthyFor is how long the kubelet has to stay healthy in one process.
	healthyFor = 2 * time.Second
	// tries is how often a kubelet may end before it counts as crashing: its runtime may be a moment late after a boot.
	tries = 3
	// slowStart tells a kubelet that hangs from one that exits.
	slowStart = 10 * time.Second
	// settles is how long a running kubelet that is not healthy may take to become so before it is restarted.
	settles = 20 * time.Second
)

// startStep starts the kubelet and proves its health. Its undo stops it.
func (b *builder) startStep(config []byte) transaction.Step {
	health := healthURL(config)
	return transaction.Step{
		Name: runningName, Action: "Start the kubelet and prove that it is healthy", CheckLast: true,
		Check: func(ctx context.Context, plan *transaction.Plan) (transaction.Finding, error) {
			if plan.Restart() {
				return transaction.Finding{Drift: []string{"it has to be started with what changed"}}, nil
			}
			problem, err := b.runningProblem(ctx, health)
			if err != nil || problem == "" {
				return transaction.Finding{}, err
			}
			return transaction.Finding{Drift: []string{problem}}, nil
		},
		Prepare: func(context.Context) (transaction.Undo, error) {
			return transaction.NewUndo(undoServiceStart, serviceUndo{Name: KubeletService, Folder: b.layout.releases}), nil
		},
		Do: func(ctx context.Context) error { return b.start(ctx, health) },
	}
}

// runningProblem says what is wrong with the kubelet that runs, or "".
func (b *builder) runningProblem(ctx context.Context, health string) (string, error) {
	status, err := b.host.Services.Status(KubeletService)
	if err != nil {
		return "", err
	}
	if status.State != winservice.Running && status.State != winservice.StartPending {
		return "it is " + status.State + ", not running", nil
	}
	processes, err := b.host.Processes.Under(b.layout.releases)
	if err != nil {
		return "", err
	}
	for _, process := range processes {
		if !strings.HasPrefix(strings.ToLower(process.Path), strings.ToLower(b.layout.release)) {
			return "it runs " + process.Path, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	for {
		problem := probe(ctx, health)
		if problem == nil {
			return "", nil
		}
		if sleep(ctx, time.Second) != nil {
			return "it is not healthy: " + problem.Error(), nil
		}
	}
}

// start proves that the service runs, stays in one process and answers its health check.
func (b *builder) start(ctx context.Context, health string) error {
	if err := b.stopForStart(ctx); err != nil {
		return err
	}
	b.logOffset = fileSize(b.layout.kubeletLog)
	limit := time.Duration(b.spec.Kubelet.HealthTimeoutSeconds) * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watch := &healthWatch{builder: b, health: health, limit: limit}
	err := watch.run(ctx)
	if err != nil {
		// Now: undoing starts the old kubelet, which writes into the same log.
		b.failureLog = Tail(b.layout.kubeletLog, b.logOffset, logLines)
	}
	return err
}

// stopForStart ends a kubelet that runs and is not as it shall be; kubelet-stop has done it where something else changed.
func (b *builder) stopForStart(ctx context.Context) error {
	running, err := b.isRunning()
	if err != nil || !running {
		return err
	}
	return StopService(ctx, b.host, KubeletService, b.layout.releases)
}

// healthWatch follows one start.
type healthWatch struct {
	*builder
	health string
	limit  time.Duration
	ends   int
	pid    uint32
	// since is when the present process was first seen healthy; zero: it has not been.
	since time.Time
	last  error
}

func (w *healthWatch) run(ctx context.Context) error {
	if err := w.startService(ctx); err != nil {
		return err
	}
	for {
		healthy, err := w.look(ctx)
		if err != nil || healthy {
			return err
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return reason.New(reason.KubeletUnhealthy, "service "+KubeletService, fmt.Sprintf("not healthy within %v: %v", w.limit, w.last), "")
		}
	}
}

func (w *healthWatch) look(ctx context.Context) (bool, error) {
	status, err := w.host.Services.Status(KubeletService)
	if err != nil {
		return false, err
	}
	if status.State != winservice.Running {
		w.since, w.last = time.Time{}, errors.New("the service is "+status.State)
		if status.State == winservice.Stopped {
			return false, w.ended(ctx, fmt.Sprintf("it ended (exit code %d)", status.ExitCode))
		}
		return false, nil
	}
	if w.pid != 0 && status.PID != w.pid {
		w.since = time.Time{}
		w.pid = status.PID
		return false, w.count("it ended and was started again")
	}
	w.pid = status.PID
	if w.last = probe(ctx, w.health); w.last != nil {
		w.since = time.Time{}
		return false, nil //nolint:nilerr // w.last keeps it for the time limit's message
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since) >= w.host.stays, nil
}

// ended starts the service again, a little later each time, until it has ended too often.
func (w *healthWatch) ended(ctx context.Context, how string) error {
	if err := w.count(how); err != nil {
		return err
	}
	w.pid = 0
	if sleep(ctx, time.Duration(w.ends)*time.Second) != nil {
		return nil //nolint:nilerr // run reports the time limit
	}
	return w.startService(ctx)
}

// startService leaves a kubelet that died at once to look, which finds the service stopped; one that kept the SCM waiting is not worth
// the same wait again.
func (w *healthWatch) startService(ctx context.Context) error {
	begin := time.Now()
	err := w.host.Services.Start(ctx, KubeletService)
	if errors.Is(err, winservice.ErrDied) {
		if time.Since(begin) < slowStart {
			return nil
		}
		return reason.Wrap(reason.KubeletUnhealthy, "service "+KubeletService, err, "")
	}
	if err != nil && ctx.Err() == nil {
		return reason.Wrap(reason.ServiceFailed, "service "+KubeletService, err, "")
	}
	return nil
}

func (w *healthWatch) count(how string) error {
	w.ends++
	if w.ends < tries {
		return nil
	}
	return reason.New(reason.KubeletUnhealthy, "service "+KubeletService, fmt.Sprintf("%s; that was %d times in a row", how, w.ends), "")
}

// healthURL reads where the kubelet answers; empty where the configuration turns that off.
func healthURL(config []byte) string {
	parsed := struct {
		Port    *int   `json:"healthzPort"`
		Address string `json:"healthzBindAddress"`
	}{}
	_ = yaml.Unmarshal(config, &parsed) // it is our own
	port, address := 10248, "127.0.0.1"
	if parsed.Port != nil {
		port = *parsed.Port
	}
	if parsed.Address != "" && parsed.Address != "0.0.0.0" && parsed.Address != "::" {
		address = parsed.Address
	}
	if port == 0 {
		return ""
	}
	return "http://" + net.JoinHostPort(address, strconv.Itoa(port)) + "/healthz"
}

// probe asks once, never through a proxy.
func probe(ctx context.Context, health string) error {
	if health == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, health, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", health, response.Status)
	}
	return nil
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
