package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transaction"
)

const (
	// joinWithin bounds a lane's wait for its main receiver, and the main receiver's for lanes that are about to end.
	joinWithin = 20 * time.Second
	again      = 20 * time.Millisecond
	lanePrefix = ".lane-"
)

// The main receiver holds .lock, a lane beside it .lane-SESSION-N. A main receiver empties .session before it looks whether lanes of others
// are held: a lane of an earlier session that comes later sees that it is not meant, and one that came before keeps the main receiver away.

// Lock keeps other receivers away; they get the reason TransferBusy. Lanes of the session may join once they are admitted.
func (s Store) Lock(session string) (unlock func(), err error) {
	unlock, err = s.hold(".lock")
	if err != nil {
		return nil, err
	}
	if err = os.WriteFile(s.sessionFile(), nil, 0o600); err == nil {
		err = s.lanes(func(name string) bool { return session == "" || !strings.HasPrefix(name, lanePrefix+session) }, 0)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// Admit lets the lanes of the session write: what they write to has been prepared.
func (s Store) Admit(session string) error {
	if session == "" {
		return nil
	}
	return s.written(os.WriteFile(s.sessionFile(), []byte(session), 0o600))
}

// Join lets a lane take part in the session, once its main receiver admits it. Only then does it keep others away: two transfers whose lanes wait
// would refuse each other for ever.
func (s Store) Join(session string, lane int) (leave func(), err error) {
	for deadline := time.Now().Add(joinWithin); !s.admits(session); time.Sleep(again) {
		if time.Now().After(deadline) {
			return nil, s.busy()
		}
	}
	leave, err = s.hold(fmt.Sprintf("%s%s-%d", lanePrefix, session, lane))
	if err == nil && !s.admits(session) { // its main receiver has ended, and another one may not have seen the lane
		leave()
		return nil, s.busy()
	}
	return leave, err
}

func (s Store) admits(session string) bool {
	current, err := os.ReadFile(s.sessionFile())
	return err == nil && string(current) == session
}

// LanesEnded waits until no lane of the session holds a content open any more.
func (s Store) LanesEnded(session string) error {
	return s.lanes(func(name string) bool { return strings.HasPrefix(name, lanePrefix+session) }, joinWithin)
}

// lanes waits for the lanes that are meant, and deletes their files.
func (s Store) lanes(meant func(name string) bool, within time.Duration) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(within)
	for _, file := range files {
		for strings.HasPrefix(file.Name(), lanePrefix) && meant(file.Name()) {
			leave, err := s.hold(file.Name())
			if err == nil {
				leave()
				_ = os.Remove(filepath.Join(s.dir, file.Name())) // an empty file more or less
				break
			}
			if !reason.Is(err, reason.TransferBusy) || time.Now().After(deadline) {
				return err
			}
			time.Sleep(again)
		}
	}
	return nil
}

func (s Store) sessionFile() string { return filepath.Join(s.dir, ".session") }

func (s Store) hold(name string) (release func(), err error) {
	release, err = transaction.Lock(filepath.Join(s.dir, name))
	if reason.Is(err, reason.NodeBusy) {
		return nil, s.busy()
	}
	return release, err
}

func (s Store) busy() error {
	return reason.New(reason.TransferBusy, s.dir, "another transfer to this machine is under way", "")
}
