// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package execs

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/supervise"
)

const (
	// readBytes is how much of the output is read at once, and outstanding how many
	// such pieces an attached client may be behind before the command waits. The ring
	// holds twice as much, so what is outstanding is never dropped.
	readBytes   = 16 << 10
	outstanding = 8

	// drainWait bounds the wait for the end of the output once the command has ended
	// and its session is killed. Only a program that left the session, and kept the
	// output, can hold it open.
	drainWait = time.Second

	// endOfInput is what a terminal takes for the end of its input.
	endOfInput = 4
)

// Exit is how a command ended.
type Exit struct {
	// Code is the exit code, or 128 and the signal as shells have it.
	Code int
	// Signal is the name of the signal that ended it, if one did.
	Signal string
}

// Session is one command.
type Session struct {
	id       string
	args     []string // as they were asked for
	began    time.Time
	detached time.Duration
	child    *supervise.Child
	ring     *ringlog.Ring
	terminal *os.File // nil without one
	outputs  []*os.File
	pumps    sync.WaitGroup

	// input has what clients sent, and nil for its end; inputDone is closed when no
	// more is taken.
	in        *os.File // nil without input
	input     chan []byte
	inputDone chan struct{}

	ending sync.Once

	done   chan struct{} // closed when exit is set
	exit   Exit
	expire *time.Timer
	forget *time.Timer

	mu     sync.Mutex
	room   *sync.Cond
	client *Client // nil while none is attached
	// fresh is set until the first client attaches or the command is told to end, and early counts the pieces
	// until then. The client that started a command comes a moment later, and is to have all of its output.
	fresh bool
	early int
}

// Client is an attached client.
type Client struct {
	session *Session
	reader  *ringlog.Reader
	ctx     context.Context
	cancel  context.CancelFunc

	// Guarded by the session's mutex: how far the output was when the client came,
	// how far the client is, and how many pieces came since that it has not had.
	catchUp, at int64
	pieces      int
	// replaced is set when another client took its place.
	replaced bool
}

func startSession(reaper *supervise.Reaper, c Command) (*Session, error) {
	s := &Session{
		began: time.Now(), ring: ringlog.New(ringlog.MinCapacity), done: make(chan struct{}), fresh: true,
		input: make(chan []byte, 4), inputDone: make(chan struct{}),
	}
	s.room = sync.NewCond(&s.mu)
	files, err := s.open(c)
	if err == nil {
		s.child, err = reaper.Start(c.Args, c.Env, c.Dir, files, c.Terminal)
	}
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		s.closeFiles()
		return nil, err
	}
	go s.feed()
	for i, f := range s.outputs {
		stream := ringlog.Stdout
		if i == 1 {
			stream = ringlog.Stderr
		}
		s.pumps.Go(func() { s.pump(f, stream) })
	}
	return s, nil
}

// open makes the command's files and ours. What is opened is closed by the caller,
// whatever the error.
func (s *Session) open(c Command) (theirs [3]*os.File, err error) {
	if c.Terminal {
		ours, peer, err := openTerminal()
		if err != nil {
			return theirs, err
		}
		s.terminal, s.in, s.outputs = ours, ours, []*os.File{ours}
		if c.Size != (Size{}) {
			_ = resize(ours, c.Size) // before the command starts, which may ask at once
		}
		return [3]*os.File{peer, peer, peer}, nil
	}
	if c.Stdin {
		theirs[0], s.in, err = pipe(false)
	} else {
		theirs[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return theirs, err
	}
	for i := 1; i <= 2; i++ {
		var ours *os.File
		if ours, theirs[i], err = pipe(true); err != nil {
			return theirs, err
		}
		s.outputs = append(s.outputs, ours)
	}
	return theirs, nil
}

// pipe returns a read and a write end. Ours honours deadlines, the command's
// blocks: O_NONBLOCK belongs to the open file, which the command shares.
func pipe(oursReads bool) (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	ours := fds[1]
	if oursReads {
		ours = fds[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "read end"), os.NewFile(uintptr(fds[1]), "write end"), nil
}

func (s *Session) closeFiles() {
	if s.in != nil {
		_ = s.in.Close()
	}
	for _, f := range s.outputs {
		_ = f.Close()
	}
}

// feed writes the input until it is closed or the command ends.
func (s *Session) feed() {
	defer close(s.inputDone)
	if s.in == nil {
		return
	}
	for {
		select {
		case p := <-s.input:
			if p != nil {
				// A command that has closed its input is not told more.
				_, _ = s.in.Write(p)
				continue
			}
			if s.terminal == nil {
				_ = s.in.Close()
				return
			}
			// A terminal has one end for both ways; a program that reads it sees the end.
			_, _ = s.in.Write([]byte{endOfInput})
		case <-s.done:
			return
		}
	}
}

// pump moves output into the ring, at the pace of the attached client.
func (s *Session) pump(from *os.File, stream ringlog.Stream) {
	buf := make([]byte, readBytes)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			s.append(stream, buf[:n])
		}
		if err != nil { // its end; a terminal says EIO
			return
		}
	}
}

func (s *Session) append(stream ringlog.Stream, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waits() {
		s.room.Wait()
	}
	switch {
	case s.client != nil:
		s.client.pieces++
	case s.fresh:
		s.early++
	}
	s.ring.AppendRaw(ringlog.Source{Stream: stream, Attempt: 1}, time.Now(), p)
}

// run waits for the end of the command and of its output.
func (s *Session) run() {
	status := <-s.child.Exited()
	s.child.KillRest()
	drained := make(chan struct{})
	go func() {
		s.pumps.Wait()
		close(drained)
	}()
	late := time.NewTimer(drainWait)
	defer late.Stop()
	for waiting := true; waiting; {
		select {
		case <-drained:
			waiting = false
		case <-late.C:
			if s.hasSlowClient() {
				late.Reset(drainWait) // it is the client that takes its time
				continue
			}
			for _, f := range s.outputs {
				_ = f.Close()
			}
			<-drained
			waiting = false
		}
	}
	s.exit = Exit{Code: status.ExitStatus()}
	if status.Signaled() {
		s.exit = Exit{Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	s.expire.Stop()
	close(s.done)
	s.closeFiles() // ends a write of input that nobody takes
	<-s.inputDone
}

// hasSlowClient reports whether output waits for a client.
func (s *Session) hasSlowClient() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits()
}

// waits reports whether output waits for the attached client, or for the first one. mu is held.
func (s *Session) waits() bool {
	if c := s.client; c != nil {
		return c.at < c.catchUp || c.pieces >= outstanding
	}
	return s.fresh && s.early >= outstanding
}

// age ends the wait for the first client.
func (s *Session) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = false
	s.room.Broadcast()
}

// ID names the command for [Manager.Find].
func (s *Session) ID() string { return s.id }

func (s *Session) info() Info {
	i := Info{ID: s.id, Args: s.args, Began: s.began, Terminal: s.terminal != nil}
	if s.over() {
		i.Exit = &s.exit
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i.Attached = s.client != nil
	return i
}

// over tells whether the command and its output have ended.
func (s *Session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Signal signals the command and its group.
func (s *Session) Signal(sig unix.Signal) { s.child.Signal(sig) }

// Resize tells the command's terminal its size; without one it does nothing.
func (s *Session) Resize(size Size) {
	if s.terminal != nil && !s.over() {
		_ = resize(s.terminal, size) // closed under us: the command has ended
	}
}

// End stops the command as Stop does, and cuts its client off. It returns at the end.
func (s *Session) End() {
	s.Stop()
	s.cutOff()
	<-s.done
}

// Stop has the command stopped: HUP and TERM, then KILL. An attached client gets the rest of the
// output, and the end. It does not wait.
func (s *Session) Stop() {
	s.ending.Do(func() {
		s.age()
		s.child.Signal(unix.SIGHUP)
		s.child.Signal(unix.SIGTERM)
		go func() {
			if s.endsWithin(endGrace) {
				return
			}
			s.child.Signal(unix.SIGKILL)
			if !s.endsWithin(endGrace) {
				s.cutOff() // a client that takes nothing must not keep it from ending
			}
		}()
	})
}

func (s *Session) endsWithin(d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-s.done:
		return true
	case <-late.C:
		return false
	}
}

// cutOff ends the attachment of the client, if there is one.
func (s *Session) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.cancel()
	}
}

// Done is closed when the command and its output have ended; [Session.Exit] then says how.
func (s *Session) Done() <-chan struct{} { return s.done }

// Exit is how the command ended. It is for after [Session.Done].
func (s *Session) Exit() Exit { return s.exit }

// Attach makes the caller the command's client, from the given offset of its
// output. Who was it before is cut off. The caller ends it with [Client.Detach].
func (s *Session) Attach(ctx context.Context, offset int64) *Client {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.replaced = true
		s.client.cancel()
	}
	s.expire.Stop()
	s.fresh = false
	_, next := s.ring.Bounds()
	c := &Client{
		session: s, reader: s.ring.Reader(offset, ringlog.All), ctx: ctx, cancel: cancel,
		catchUp: next,
	}
	c.at = c.reader.Offset()
	s.client = c
	s.room.Broadcast()
	return c
}

// Detach ends the attachment. A command that has no client then is ended later.
func (c *Client) Detach() {
	c.cancel()
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != c {
		return
	}
	s.client = nil
	s.room.Broadcast()
	if !s.over() {
		s.expire.Reset(s.detached)
	}
}

// Offset is the offset of the output at which the client is.
func (c *Client) Offset() int64 { return c.reader.Offset() }

// Replaced reports whether another client took this one's place.
func (c *Client) Replaced() bool {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.replaced
}

// Context ends when the client is cut off, or has detached.
func (c *Client) Context() context.Context { return c.ctx }

// Output hands the output to send, in order, until the command has ended and all is
// sent, the client is cut off, or send fails. gap tells how many bytes before p were
// dropped while no client was attached.
func (c *Client) Output(send func(stream ringlog.Stream, gap int64, p []byte) error) (Exit, error) {
	var b ringlog.Batch
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	go func() {
		select {
		case <-c.session.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		for c.reader.Fill(&b, math.MaxInt64) {
			if err := c.send(&b, send); err != nil {
				return Exit{}, err
			}
		}
		if c.ctx.Err() != nil {
			return Exit{}, c.ctx.Err()
		}
		if c.reader.Wait(ctx) == nil {
			continue
		}
		if c.session.over() {
			// What came between the last look and the end.
			for c.reader.Fill(&b, math.MaxInt64) {
				if err := c.send(&b, send); err != nil {
					return Exit{}, err
				}
			}
			return c.session.exit, nil
		}
	}
}

func (c *Client) send(b *ringlog.Batch, send func(ringlog.Stream, int64, []byte) error) error {
	if b.Lost > 0 {
		if err := send(ringlog.Stdout, b.Lost, nil); err != nil {
			return err
		}
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		if err := send(e.Stream, 0, e.Data); err != nil {
			return err
		}
		c.had(e.Offset, e.Offset+int64(len(e.Data)))
	}
	return nil
}

// had notes that a piece was sent.
func (c *Client) had(from, to int64) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	c.at = to
	if from >= c.catchUp {
		c.pieces--
	}
	s.room.Broadcast()
}

// Input hands bytes to the command. It waits while the command does not take them,
// until the client is cut off or the command ends. p is kept.
func (c *Client) Input(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	return c.input(p)
}

// CloseInput ends the command's input. What comes later is dropped.
func (c *Client) CloseInput() error { return c.input(nil) }

func (c *Client) input(p []byte) error {
	select {
	case c.session.input <- p:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	case <-c.session.inputDone:
		return nil
	}
}
