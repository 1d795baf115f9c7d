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

	"wsu.windows/internal/drift"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
)

const (
	// healthyFor is how long the kubelet has to stay healthy in one process, changedHealthyFor where there is one to go back to.
	healthyFor        = 2 * time.Second
	changedHealthyFor = 5 * time.Second
	// askWithin bounds one question to the API server.
	askWithin = 5 * time.Second
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
				return transaction.Finding{Drift: drift.Whole("it has to be started with what changed")}, nil
			}
			problem, err := b.runningProblem(ctx, health)
			if err != nil || problem == "" {
				return transaction.Finding{}, err
			}
			return transaction.Finding{Drift: drift.Whole(problem)}, nil
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

// start proves that the service runs, stays in one process, answers its health check, and that the API server hears of it.
func (b *builder) start(ctx context.Context, health string) error {
	if err := b.stopForStart(ctx); err != nil {
		return err
	}
	b.logOffset = fileSize(b.layout.kubeletLog)
	limit := time.Duration(b.spec.Kubelet.HealthTimeoutSeconds) * time.Second
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watch := &healthWatch{builder: b, health: health, limit: limit, stays: b.host.StaysChanged}
	if b.before == nil || b.before.Current == nil {
		watch.stays = b.host.Stays
	}
	if err := watch.run(limited); err != nil {
		// Now: undoing starts the old kubelet, which writes into the same log.
		b.failureLog = Tail(b.layout.kubeletLog, b.logOffset, logLines)
		return err
	}
	b.startDependants(ctx)
	return nil
}

// startDependants starts what was stopped with the kubelet. One that does not start is not the kubelet's fault.
func (b *builder) startDependants(ctx context.Context) {
	for _, name := range b.dependants {
		if err := b.host.Services.Start(ctx, name); err != nil {
			b.warn("service %s was stopped with the kubelet and does not start again: %v", name, err)
		}
	}
}

// stopForStart ends a kubelet that runs and is not as it shall be; kubelet-stop has done it where something else changed.
func (b *builder) stopForStart(ctx context.Context) error {
	running, err := b.isRunning()
	if err != nil || !running {
		return err
	}
	return b.stopKubelet(ctx)
}

// healthWatch follows one start.
type healthWatch struct {
	*builder
	health       string
	limit, stays time.Duration
	ends         int
	pid          uint32
	// started is when the present process was started, since when it was first seen healthy; zero: it has not been.
	started, since time.Time
	last           error
	// unheard is why the API server has not heard of a kubelet that is healthy here.
	unheard error
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
			return w.tooLate()
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
		w.since, w.started = time.Time{}, time.Now()
		w.pid = status.PID
		return false, w.count("it ended and was started again")
	}
	w.pid = status.PID
	if problem := probe(ctx, w.health); problem != nil {
		if ctx.Err() == nil || w.since.IsZero() { // else our time is over in the middle of the question, which says nothing of a healthy kubelet
			w.last, w.since = problem, time.Time{}
		}
		return false, nil //nolint:nilerr // w.last keeps it for the time limit's message
	}
	w.last = nil
	if w.since.IsZero() {
		w.since = time.Now()
	}
	if time.Since(w.since) < w.stays {
		return false, nil
	}
	return w.isHeard(ctx), nil
}

// isHeard asks whether the API server has heard of this very process. A heartbeat's time has whole seconds: where another kubelet ran
// before, one of the second in which this one was started may still be that one's.
func (w *healthWatch) isHeard(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	at, err := w.host.Heard(asking, w.layout.kubeconfig, w.spec.Node.Name)
	if err != nil && ctx.Err() != nil && w.unheard != nil {
		return false // our time is over: the answer before counts
	}
	from := w.started
	if w.before == nil || w.before.Current == nil {
		from = from.Truncate(time.Second).Add(-1)
	}
	switch {
	case err == nil && at.After(from):
		return true
	case reason.Is(err, reason.APIForbidden), w.restoring && isUnreachable(err):
		w.warn("the kubelet is healthy; whether the API server has heard of it could not be found out: %v", err)
		return true
	case err != nil:
		w.unheard = err
	case at.IsZero():
		w.unheard = errors.New("there is no Node " + w.spec.Node.Name)
	default:
		w.unheard = fmt.Errorf("the Node %s was last heard of at %s, before this kubelet was started", w.spec.Node.Name, at.UTC().Format(time.RFC3339))
	}
	return false
}

// isUnreachable tells an API server that this machine cannot ask from one that answers something else.
func isUnreachable(err error) bool {
	return reason.Is(err, reason.APIUnreachable) || reason.Is(err, reason.DNSFailed) || reason.Is(err, reason.APIUntrusted)
}

// tooLate says what was still missing when the time was over.
func (w *healthWatch) tooLate() error {
	object := "service " + KubeletService
	switch {
	case w.since.IsZero():
		return reason.New(reason.KubeletUnhealthy, object, fmt.Sprintf("not healthy within %v: %v", w.limit, w.last), "")
	case w.unheard == nil:
		return reason.New(reason.KubeletUnhealthy, object, fmt.Sprintf("it was healthy only just before the %v were over", w.limit), "")
	case isUnreachable(w.unheard):
		return fmt.Errorf("the kubelet is healthy, but this machine cannot reach the API server: %w", w.unheard)
	}
	return reason.New(reason.NodeNotRegistered, "node "+w.spec.Node.Name,
		fmt.Sprintf("the kubelet is healthy on its machine, but the API server did not hear of it within %v: %v", w.limit, w.unheard), "")
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
	w.started = begin
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
