package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"wsu.windows/internal/base64lines"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/remotewmcb"
	stream "wsu.windows/internal/transfer"
)

const (
	// laneWorth is how many bytes on the line make a further lane worth its login.
	laneWorth = 4 << 20
	// maxUnderWay is what a cut may cost, in bytes of the line.
	maxUnderWay = 4 << 20
)

// send sends the files on one line, or on several at once.
func (j *job) send(ctx context.Context, lines *lines, remote *remotewmcb.Remote, files []stream.File) error {
	session := rand.Text()
	work, err := stream.NewWork(files, session)
	if err != nil {
		return reason.Wrap(reason.FileMissing, "a file of the payload's cache", err, "Run it again; it is fetched anew.")
	}
	defer work.Close()
	work.Sent = func(n int64) {
		j.done += n
		j.result.SentBytes += n
		j.env.Progress.Bytes("transfer", "files", j.done, j.total)
	}
	if !j.asText() { // whose last bytes wait for their line to be full
		work.MaxUnderWay = maxUnderWay
	}
	j.noteDifferences(work)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beside sync.WaitGroup
	_, wire := work.Bytes()
	lanes := lines.begin(ctx, int(min(wire/laneWorth, stream.MaxLanes)))
	j.result.Lanes = max(j.result.Lanes, lanes)
	for lane := 1; lane < lanes; lane++ {
		work.AddLane()
		beside.Go(func() {
			if err := j.sendLane(ctx, lines, remote, work, lane); err != nil {
				cancel(err)
			}
		})
	}
	report, err := j.stream(ctx, remote, work, 0)
	if err != nil {
		cancel(err)
	}
	beside.Wait()
	if cause := context.Cause(ctx); cause != nil && err != nil && reason.Is(err, reason.Interrupted) {
		err = cause // a lane's
	}
	switch {
	case reason.Is(err, reason.TransferChecksum):
		j.mistrust = true
		for _, f := range files {
			stream.Forget(f.Path)
		}
	case err == nil:
		return j.checkReceived(files, report)
	}
	return err
}

// sendLane is one line beside the main one. One that does not come about is done without.
func (j *job) sendLane(ctx context.Context, lines *lines, main *remotewmcb.Remote, work *stream.Work, lane int) error {
	connection := lines.take(lane)
	if connection == nil {
		work.DropLane()
		return nil
	}
	_, err := j.stream(ctx, main.Over(connection), work, lane)
	return err
}

// stream sends one lane's stream to a receiver.
func (j *job) stream(ctx context.Context, remote *remotewmcb.Remote, work *stream.Work, lane int) (*nodereport.Receive, error) {
	reader, writer := io.Pipe()
	counted := &counter{w: writer, n: &j.result.WireBytes}
	sent := make(chan error, 1)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := j.encode(counted, func(w io.Writer) error { return work.Send(sending, w, lane) })
		writer.CloseWithError(err)
		sent <- err
	}()
	report := &nodereport.Receive{}
	told := remote.Telling(func(bytes int64) { work.Arrived(lane, bytes) })
	err := told.Run(ctx, []string{"receive", "--install-dir", j.args.InstallDir}, reader, nil, report)
	reader.Close() // ends a sender whose stream nobody reads any more
	stop()         // and one that waits for the far end to take it
	sendErr := <-sent
	if err == nil && report.Moved {
		remote.Moved()
	}
	if err != nil && sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) && !errors.Is(sendErr, context.Canceled) {
		// The far end only saw a stream that broke off; what broke it is here.
		return nil, reason.Wrap(reason.FileMissing, "a file of the payload's cache", sendErr, "Run it again; it is fetched anew.")
	}
	return report, err
}

// asText reports whether bytes did not arrive as they were sent, so that they have to come as text.
func (j *job) asText() bool { return j.mistrust && j.args.Connection.Kind == "winrm" }

// encode sends bytes as lines of base64 where it has to be text.
func (j *job) encode(w io.Writer, send func(io.Writer) error) error {
	if !j.asText() {
		return send(w)
	}
	lines := base64lines.NewWriter(w)
	return errors.Join(send(lines), lines.Close())
}

// checkReceived: what was sent has to be what arrived.
func (j *job) checkReceived(files []stream.File, report *nodereport.Receive) error {
	for _, f := range files {
		if !slices.Contains(report.Received, f.SHA256) {
			return reason.New(reason.HostOutputInvalid, "host "+j.host()+": wmcb receive", "it does not confirm the content "+f.SHA256, "")
		}
	}
	return nil
}

func (j *job) noteDifferences(work *stream.Work) {
	for _, f := range j.args.Files {
		if slices.Contains(work.Differences(), f.SHA256) && !slices.Contains(j.result.Differences, f.Name) {
			j.result.Differences = append(j.result.Differences, f.Name)
		}
	}
}

// counter counts what all lanes write.
type counter struct {
	w io.Writer
	n *int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	atomic.AddInt64(c.n, int64(n))
	return n, err
}
