package transfer

import (
	"context"
	"time"

	"wsu.windows/internal/remotewmcb"
	"wsu.windows/internal/transport"
)

// One SSH connection has at most 2 MiB on their way, and WinRM at most one message: beyond these round trips, one alone does not fill a
// fast line. Where it does, further ones only cost logins.
const (
	twoLinesFrom        = 15 * time.Millisecond
	fourLinesFrom       = 80 * time.Millisecond
	fourLinesFromSerial = 3 * time.Millisecond
)

// lines are the connections to one host: the main one, and those for lanes beside it, which log in while other things go on.
type lines struct {
	config *transport.Config
	main   transport.Connection
	// most is how many the line can use, 0 until that was measured.
	most   int
	beside []chan transport.Connection
}

// begin begins to log in so many lines in all, as far as the line to the host can use them, and gives how many there will be.
func (l *lines) begin(ctx context.Context, wanted int) int {
	if wanted <= 1 {
		return 1
	}
	if l.most == 0 {
		l.most = l.useful(ctx)
	}
	for len(l.beside)+1 < min(wanted, l.most) {
		ready := make(chan transport.Connection, 1)
		l.beside = append(l.beside, ready)
		go func() {
			connection, err := remotewmcb.Dial(ctx, l.config)
			if err != nil {
				connection = nil // a quota, most likely; the others carry on
			}
			ready <- connection
		}()
	}
	return min(wanted, len(l.beside)+1)
}

func (l *lines) useful(ctx context.Context) int {
	const all = 4
	roundTrip, serial := l.main.RoundTrip(ctx)
	switch {
	case serial && roundTrip >= fourLinesFromSerial || roundTrip >= fourLinesFrom:
		return all
	case serial || roundTrip >= twoLinesFrom:
		return all / 2
	}
	return 1
}

// take gives a line, counted from 1, when it is there; nil where it did not come about. Close ends it.
func (l *lines) take(lane int) transport.Connection {
	connection := <-l.beside[lane-1]
	l.beside[lane-1] <- connection
	return connection
}

func (l *lines) close() {
	for lane := range l.beside {
		if connection := l.take(lane + 1); connection != nil {
			_ = connection.Close() // nothing is left to lose
		}
	}
}
