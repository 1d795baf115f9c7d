package line

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// farEnd keeps what arrives on each connection until its end.
type farEnd struct {
	listener net.Listener
	mu       sync.Mutex
	arrived  [][]byte
	ended    chan int
}

func newFarEnd(t *testing.T) *farEnd {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &farEnd{listener: listener, ended: make(chan int, 10)}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for number := 0; ; number++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.arrived = append(f.arrived, nil)
			f.mu.Unlock()
			go f.take(c, number)
		}
	}()
	return f
}

func (f *farEnd) take(c net.Conn, number int) {
	content, _ := io.ReadAll(c)
	f.mu.Lock()
	f.arrived[number] = content
	f.mu.Unlock()
	f.ended <- number
}

func (f *farEnd) on(t *testing.T) (*Line, func() net.Conn) {
	l, err := New(f.listener.Addr().String(), 0)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l, func() net.Conn {
		c, err := net.Dial("tcp", l.listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func (f *farEnd) got(t *testing.T) []byte {
	number := <-f.ended
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.arrived[number]
}

func TestItIsCutWhereItIsToldAndAgainAfterThat(t *testing.T) {
	f := newFarEnd(t)
	l, dial := f.on(t)
	l.CutAfter(1000, 50)
	_, err := dial().Write(make([]byte, 3000))
	require.NoError(t, err)
	assert.Len(t, f.got(t), 1000)
	assert.Equal(t, 1, l.CutsLeft())
	_, err = dial().Write(make([]byte, 3000))
	require.NoError(t, err)
	assert.Len(t, f.got(t), 50)
	assert.Zero(t, l.CutsLeft())
	c := dial()
	_, err = c.Write(make([]byte, 3000))
	require.NoError(t, err)
	c.Close()
	assert.Len(t, f.got(t), 3000)
}

func TestOneBitIsFlipped(t *testing.T) {
	f := newFarEnd(t)
	l, dial := f.on(t)
	l.FlipAfter(70_000, 3)
	sent := bytes.Repeat([]byte{0x55}, 200_000)
	c := dial()
	_, err := c.Write(sent)
	require.NoError(t, err)
	c.Close()
	want := bytes.Clone(sent)
	want[70_000] ^= 8
	assert.True(t, bytes.Equal(want, f.got(t)))
	assert.True(t, l.Flipped())
}

func TestNoEndOfAForgottenConnectionLearnsOfTheOther(t *testing.T) {
	f := newFarEnd(t)
	l, dial := f.on(t)
	c := dial()
	l.ForgetAfter(0)
	_, err := c.Write([]byte("nobody reads this"))
	require.NoError(t, err)
	require.Eventually(t, l.Forgotten, 10*time.Second, time.Millisecond)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	assert.True(t, errors.Is(err, os.ErrDeadlineExceeded), err)
	c.Close()
	other := dial()
	_, err = other.Write([]byte("hello"))
	require.NoError(t, err)
	other.Close()
	assert.Equal(t, []byte("hello"), f.got(t), "the first that ends is the new one")
	l.Close()
	assert.Empty(t, f.got(t))
}
