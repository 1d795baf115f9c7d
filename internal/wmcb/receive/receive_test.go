//go:build unix

package receive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/base64lines"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/store"
	"wsu.windows/internal/transfer"
)

// bench is a control host's files and a node's install folder.
type bench struct {
	t       *testing.T
	install string
	files   []transfer.File
}

func newBench(t *testing.T, contents ...[]byte) *bench {
	t.Helper()
	b := &bench{t: t, install: filepath.Join(t.TempDir(), "k")}
	for _, content := range contents {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		path := filepath.Join(t.TempDir(), digest)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		b.files = append(b.files, transfer.File{Content: transfer.Content{SHA256: digest, Size: int64(len(content))}, Path: path})
	}
	return b
}

// mixed is half compressible.
func mixed(size int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(size))) //nolint:gosec // the same bytes in every run
	content := make([]byte, size)
	for i := range content {
		if i/1000%2 == 0 {
			content[i] = byte(random.Uint32())
		}
	}
	return content
}

func (b *bench) self() string {
	path := filepath.Join(b.t.TempDir(), "wmcb.exe")
	require.NoError(b.t, os.WriteFile(path, []byte("this is wmcb"), 0o700)) //nolint:gosec // a program
	return path
}

func (b *bench) plan() nodereport.Receive {
	b.t.Helper()
	m := transfer.Manifest{Version: transfer.Version}
	for _, f := range b.files {
		m.Contents = append(m.Contents, f.Content)
	}
	raw, err := json.Marshal(m)
	require.NoError(b.t, err)
	report, err := Run(b.t.Context(), Options{Install: b.install, Plan: true, Stdin: bytes.NewReader(raw), self: b.self()})
	require.NoError(b.t, err)
	return report
}

// missing gives the files of a plan's answer, with their offsets.
func (b *bench) missing(report nodereport.Receive) []transfer.File {
	var files []transfer.File
	for _, m := range report.Missing {
		for _, f := range b.files {
			if f.SHA256 == m.SHA256 {
				f.Only = []int{}
				for chunk := range f.Chunks() {
					if !slices.ContainsFunc(m.Have, func(r [2]int) bool { return r[0] <= chunk && chunk < r[1] }) {
						f.Only = append(f.Only, chunk)
					}
				}
				files = append(files, f)
			}
		}
	}
	return files
}

func (b *bench) stream(files []transfer.File) []byte {
	b.t.Helper()
	var stream bytes.Buffer
	work, err := transfer.NewWork(files, "")
	require.NoError(b.t, err)
	defer work.Close()
	require.NoError(b.t, work.Send(b.t.Context(), &stream, 0))
	return stream.Bytes()
}

func (b *bench) receive(stream []byte) (nodereport.Receive, error) {
	return Run(b.t.Context(), Options{Install: b.install, Stdin: bytes.NewReader(stream), self: b.self()})
}

func (b *bench) requireAll() {
	b.t.Helper()
	for _, f := range b.files {
		want, err := os.ReadFile(f.Path)
		require.NoError(b.t, err)
		got, err := os.ReadFile(store.At(b.install).Path(f.SHA256))
		require.NoError(b.t, err)
		require.True(b.t, bytes.Equal(want, got))
	}
}

func TestWhatIsMissingArrivesAndIsNotAskedForAgain(t *testing.T) {
	b := newBench(t, mixed(9<<20), nil, mixed(100), mixed(transfer.ChunkSize), mixed(3*transfer.ChunkSize+1))
	plan := b.plan()
	assert.NoDirExists(t, b.install, "a plan changes nothing")
	assert.Len(t, plan.Missing, 5)
	assert.False(t, plan.Installed)

	report, err := b.receive(b.stream(b.missing(plan)))
	require.NoError(t, err)
	assert.True(t, report.Changed)
	b.requireAll()
	assert.FileExists(t, filepath.Join(b.install, "wmcb.exe"))

	again := b.plan()
	assert.Empty(t, again.Missing)
	assert.Len(t, again.Present, 5)
	assert.True(t, again.Installed)
	report, err = b.receive(b.stream(nil))
	require.NoError(t, err)
	assert.False(t, report.Changed)
}

func TestWhatRottedOnTheDiskIsSentAgain(t *testing.T) {
	b := newBench(t, mixed(100_000))
	_, err := b.receive(b.stream(b.files))
	require.NoError(t, err)
	path := store.At(b.install).Path(b.files[0].SHA256)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[500] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	plan := b.plan()
	require.Len(t, plan.Missing, 1)
	_, err = b.receive(b.stream(b.missing(plan)))
	require.NoError(t, err)
	b.requireAll()
}

func TestAStreamCutAnywhereLosesAtMostOneChunk(t *testing.T) {
	content := mixed(2*transfer.ChunkSize + 12345)
	whole := newBench(t, content).stream(newBench(t, content).files)
	for cut := 0; cut < len(whole); cut += len(whole)/60 + 1 {
		b := newBench(t, content, mixed(1000))
		stream := b.stream(b.files)
		_, err := b.receive(stream[:cut])
		require.True(t, reason.Is(err, reason.ConnectionLost), "cut at %d: %v", cut, err)
		missing := b.missing(b.plan())
		require.Len(t, missing, 2, "what is not verified as a whole is not visible")
		require.Equal(t, wholeChunks(t, stream[:cut]), missing[0].Chunks()-len(missing[0].Only), "only the chunk under way is lost")
		_, err = b.receive(b.stream(missing))
		require.NoError(t, err)
		b.requireAll()
	}
}

// wholeChunks gives how many chunks of the first content are in a stream that breaks off.
func wholeChunks(t *testing.T, stream []byte) (chunks int) {
	t.Helper()
	in := bytes.NewReader(stream)
	m, err := transfer.ReadManifest(in)
	if err != nil {
		return 0
	}
	r, err := transfer.NewReader(in, m, nil)
	require.NoError(t, err)
	defer r.Close()
	for {
		chunk, err := r.Next(make([]byte, transfer.ChunkSize))
		if err != nil || chunk.Index != 0 {
			return chunks
		}
		chunks++
	}
}

func TestLanesThatBeginAtTheSameMomentBringTheContentsTogether(t *testing.T) {
	content := mixed(5 << 20)
	for range 10 {
		lanesBring(newBench(t, content, content[:100], nil))
	}
}

func lanesBring(b *bench) {
	t := b.t
	const session = "ABCDEFGHIJKLMNOPQRSTUVWXY2"
	work, err := transfer.NewWork(b.files, session)
	require.NoError(t, err)
	defer work.Close()
	self := b.self()
	line := func(lane int) error {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(work.Send(t.Context(), writer, lane)) }()
		_, err := Run(t.Context(), Options{Install: b.install, Stdin: reader, self: self})
		return err
	}
	var lanes sync.WaitGroup
	for lane := 1; lane < transfer.MaxLanes; lane++ {
		work.AddLane()
		lanes.Go(func() { assert.NoError(t, line(lane)) })
	}
	require.NoError(t, line(0))
	lanes.Wait()
	b.requireAll()
	left, err := filepath.Glob(filepath.Join(b.install, "store", "[0-9a-f]*.*"))
	require.NoError(t, err)
	assert.Empty(t, left, "nothing partial stays")
}

func TestWhatHasBeenWrittenIsTold(t *testing.T) {
	b := newBench(t, mixed(2*transfer.ChunkSize))
	stream := b.stream(b.files)
	var said bytes.Buffer
	_, err := Run(t.Context(), Options{Install: b.install, Stdin: bytes.NewReader(stream), Progress: progress.New(&said), self: b.self()})
	require.NoError(t, err)
	var told []int64
	for line := range strings.Lines(said.String()) {
		var event progress.Event
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(line, progress.Prefix)), &event))
		if event.Phase == progress.PhaseReceived {
			told = append(told, event.Done)
		}
	}
	header := 4 + int64(binary32(stream))
	const end = 24
	require.Len(t, told, 3)
	assert.Equal(t, []int64{0, int64(len(stream)) - header - end}, []int64{told[0], told[2]}, "that it has begun, and all frames")
}

func binary32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func TestTheRestOfAContentThatAnotherTransferHasFinishedIsNotMissed(t *testing.T) {
	b := newBench(t, mixed(3*transfer.ChunkSize))
	_, err := b.receive(b.stream(b.files))
	require.NoError(t, err)
	rest := b.files[0]
	rest.Only = []int{2} // the others were there, of that other transfer, when the plan was asked for
	report, err := b.receive(b.stream([]transfer.File{rest}))
	require.NoError(t, err)
	assert.Equal(t, []string{rest.SHA256}, report.Received)
	b.requireAll()
	left, err := filepath.Glob(filepath.Join(b.install, "store", "[0-9a-f]*.*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestLanesThatWaitKeepNobodyAway(t *testing.T) {
	b := newBench(t, mixed(100))
	s := store.At(b.install)
	require.NoError(t, s.Make())
	const mine, other = "ABCDEFGHIJKLMNOPQRSTUVWXY2", "ABCDEFGHIJKLMNOPQRSTUVWXY3"
	synctest.Test(t, func(t *testing.T) {
		refused := make(chan error, 1)
		go func() {
			_, err := s.Join(other, 1)
			refused <- err
		}()
		synctest.Wait()
		unlock, err := s.Lock(mine)
		require.NoError(t, err)
		require.NoError(t, s.Admit(mine))
		leave, err := s.Join(mine, 1)
		require.NoError(t, err)
		assert.True(t, reason.Is(<-refused, reason.TransferBusy))
		leave()
		require.NoError(t, s.LanesEnded(mine))
		unlock()
	})
	left, err := filepath.Glob(filepath.Join(b.install, "store", ".lane-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAReceiverThatHearsNothingMoreMakesRoomForTheNext(t *testing.T) {
	b := newBench(t, mixed(3*transfer.ChunkSize))
	stream, self := b.stream(b.files), b.self()
	synctest.Test(t, func(t *testing.T) { // it takes more than a minute, so the clock is not the real one
		reader, writer := io.Pipe()
		defer writer.Close()
		ended := make(chan error, 1)
		go func() {
			_, err := Run(t.Context(), Options{Install: b.install, Stdin: reader, self: self})
			ended <- err
		}()
		for from := range 4 { // slow is not silent
			_, err := writer.Write(stream[from*1000 : (from+1)*1000])
			require.NoError(t, err)
			time.Sleep(silence * 3 / 4)
			require.Empty(t, ended)
		}
		err := <-ended
		assert.True(t, reason.Is(err, reason.ConnectionLost), err)
	})
	_, err := b.receive(stream)
	require.NoError(t, err)
	b.requireAll()
}

func TestALaneOfAnotherTransferIsRefusedAndALaneAtWorkKeepsANewTransferAway(t *testing.T) {
	b := newBench(t, mixed(100))
	s := store.At(b.install)
	require.NoError(t, s.Make())
	const mine, other = "ABCDEFGHIJKLMNOPQRSTUVWXY2", "ABCDEFGHIJKLMNOPQRSTUVWXY3"
	unlock, err := s.Lock(mine)
	require.NoError(t, err)
	require.NoError(t, s.Admit(mine))
	leave, err := s.Join(mine, 1)
	require.NoError(t, err)
	unlock()
	_, err = s.Lock(other)
	require.True(t, reason.Is(err, reason.TransferBusy), "a lane of the transfer before still writes: %v", err)
	leave()
	unlock, err = s.Lock(other)
	require.NoError(t, err)
	defer unlock()
	synctest.Test(t, func(t *testing.T) { // a lane waits for its main stream, so the clock is not the real one
		_, err = s.Join(mine, 1)
		assert.True(t, reason.Is(err, reason.TransferBusy), err)
	})
}

func TestAStreamOfTextIsTakenAsWhatItMeans(t *testing.T) {
	b := newBench(t, mixed(300_000))
	var text bytes.Buffer
	lines := base64lines.NewWriter(&text)
	_, err := lines.Write(b.stream(b.files))
	require.NoError(t, err)
	require.NoError(t, lines.Close())
	_, err = b.receive(bytes.ReplaceAll(text.Bytes(), []byte("\n"), []byte("\r\n")))
	require.NoError(t, err)
	b.requireAll()
}

func TestADifferenceToWhatIsInTheStoreBecomesTheContent(t *testing.T) {
	old := mixed(8 << 20)
	content := slices.Concat(old[:5<<20], []byte("news"), old[5<<20:])
	b := newBench(t, old)
	_, err := b.receive(b.stream(b.files))
	require.NoError(t, err)
	next := newBench(t, content)
	next.install = b.install
	plan := next.plan()
	require.Len(t, plan.Others, 1)
	next.files[0].Base, next.files[0].BasePath = plan.Others[0].SHA256, b.files[0].Path
	stream := next.stream(next.missing(plan))
	assert.Less(t, len(stream), len(content)/10)
	_, err = next.receive(stream)
	require.NoError(t, err)
	next.requireAll()
}

func TestADamagedStreamShowsNothing(t *testing.T) {
	b := newBench(t, mixed(300_000))
	stream := b.stream(b.files)
	for at := 4; at < len(stream); at += len(stream)/200 + 1 {
		damaged := bytes.Clone(stream)
		damaged[at] ^= 0x10
		fresh := newBench(t)
		_, err := fresh.receive(damaged)
		require.Error(t, err, "a flipped bit at %d", at)
		assert.NoFileExists(t, store.At(fresh.install).Path(b.files[0].SHA256))
	}
}

func TestAContentThatIsNotWhatItsNameSaysIsDeleted(t *testing.T) {
	b := newBench(t, mixed(50_000))
	lie := b.files[0]
	lie.SHA256 = hex.EncodeToString(make([]byte, 32))
	_, err := b.receive(b.stream([]transfer.File{lie}))
	assert.True(t, reason.Is(err, reason.TransferChecksum), err)
	left, err := filepath.Glob(filepath.Join(b.install, "store", "[0-9a-f]*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTwoTransfersAtOnceDoNotMix(t *testing.T) {
	b := newBench(t, mixed(100))
	s := store.At(b.install)
	require.NoError(t, s.Make())
	unlock, err := s.Lock("")
	require.NoError(t, err)
	_, err = b.receive(b.stream(b.files))
	assert.True(t, reason.Is(err, reason.TransferBusy), err)
	unlock()
	_, err = b.receive(b.stream(b.files))
	require.NoError(t, err)
}

func TestASecondReceiverIsRefusedWhileTheFirstOneReads(t *testing.T) {
	b := newBench(t, mixed(8<<20))
	stream := b.stream(b.files)
	reader, writer := io.Pipe()
	first := make(chan error, 1)
	self := b.self()
	go func() {
		_, err := Run(t.Context(), Options{Install: b.install, Stdin: reader, self: self})
		first <- err
	}()
	_, err := writer.Write(stream[:len(stream)/2]) // returns when the first one reads, which it does under the lock
	require.NoError(t, err)
	_, err = b.receive(stream)
	require.True(t, reason.Is(err, reason.TransferBusy), err)
	_, err = writer.Write(stream[len(stream)/2:])
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, <-first)
	b.requireAll()
}

func TestMoreThanTheDriveHoldsIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	b := newBench(t)
	var stream bytes.Buffer
	m := transfer.Manifest{Version: transfer.Version}
	for i := range 1000 {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		m.Contents = append(m.Contents, transfer.Content{SHA256: hex.EncodeToString(sum[:]), Size: transfer.MaxSize})
	}
	require.NoError(t, transfer.WriteManifest(&stream, &m))
	_, err := b.receive(stream.Bytes())
	require.True(t, reason.Is(err, reason.DiskFull), err)
	assert.ErrorContains(t, err, "MB are needed")
}

func TestAFullDriveAndAHeldFileAreNamed(t *testing.T) {
	for number, code := range map[syscall.Errno]reason.Code{syscall.ENOSPC: reason.DiskFull, syscall.ETXTBSY: reason.FileLocked, syscall.EACCES: reason.AccessDenied} {
		assert.True(t, reason.Is(asReason(&os.PathError{Op: "write", Path: "wmcb.exe", Err: number}, "k"), code), code)
	}
}

func TestAProgramThatDoesNotFitIsRefusedBeforeItIsCopied(t *testing.T) {
	b := newBench(t)
	self := b.self()
	require.NoError(t, os.Truncate(self, 1<<43)) // sparse: it takes no space here
	_, err := Run(t.Context(), Options{Install: b.install, Stdin: bytes.NewReader(b.stream(nil)), self: self})
	assert.True(t, reason.Is(err, reason.DiskFull), err)
	assert.NoFileExists(t, filepath.Join(b.install, "wmcb.exe"))
}

func TestACopyThatWasBroughtForTheRunIsMovedIntoPlace(t *testing.T) {
	t.Setenv("SystemRoot", t.TempDir())
	folder := filepath.Join(os.Getenv("SystemRoot"), "Temp", "wsu-abc")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	self := filepath.Join(folder, "wmcb.exe")
	require.NoError(t, os.WriteFile(self, []byte("this is wmcb"), 0o600))
	b := newBench(t, mixed(100))
	report, err := Run(t.Context(), Options{Install: b.install, Stdin: bytes.NewReader(b.stream(b.files)), self: self})
	require.NoError(t, err)
	assert.True(t, report.Installed)
	assert.True(t, report.Moved)
	assert.FileExists(t, filepath.Join(b.install, "wmcb.exe"))
	assert.NoDirExists(t, folder)
}

func TestACopyThatAnotherRunHasJustBroughtIsNotTakenForALeftover(t *testing.T) {
	root := t.TempDir()
	t.Setenv("SystemRoot", root)
	var copies []string
	for _, name := range []string{"wsu-now", "wsu-old"} {
		folder := filepath.Join(root, "Temp", name)
		require.NoError(t, os.MkdirAll(folder, 0o700))
		copies = append(copies, filepath.Join(folder, "wmcb.exe"))
		require.NoError(t, os.WriteFile(copies[len(copies)-1], nil, 0o600))
		require.NoError(t, os.Chtimes(copies[len(copies)-1], time.Unix(0, 0), time.Unix(0, 0)), "as tar.exe leaves it")
	}
	require.NoError(t, os.Chtimes(filepath.Dir(copies[1]), time.Time{}, time.Now().Add(-48*time.Hour)))
	b := newBench(t)
	_, err := b.receive(b.stream(nil))
	require.NoError(t, err)
	assert.FileExists(t, copies[0])
	assert.NoDirExists(t, filepath.Dir(copies[1]))
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte{})
	var stream bytes.Buffer
	_ = transfer.WriteManifest(&stream, &transfer.Manifest{Version: transfer.Version, Contents: []transfer.Content{{SHA256: hex.EncodeToString(make([]byte, 32)), Size: 5}}})
	f.Add(append(bytes.Clone(stream.Bytes()), 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 5, 1, 2, 3, 4, 'h', 'e', 'l', 'l', 'o'))
	self := filepath.Join(f.TempDir(), "wmcb.exe")
	require.NoError(f, os.WriteFile(self, []byte("this is wmcb"), 0o600))
	f.Fuzz(func(t *testing.T, stream []byte) {
		install := filepath.Join(t.TempDir(), "k")
		_, _ = Run(t.Context(), Options{Install: install, Stdin: bytes.NewReader(stream), self: self})
		visible, err := filepath.Glob(filepath.Join(install, "store", "*"))
		require.NoError(t, err)
		for _, path := range visible {
			if name := filepath.Base(path); len(name) == 64 {
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				sum := sha256.Sum256(content)
				require.Equal(t, name, hex.EncodeToString(sum[:]), "what is visible is what its name says")
			}
		}
	})
}
