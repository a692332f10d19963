// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command mutagen runs one session of mutagen for bench/sync: its session manager with the local
// endpoint here, and an agent, a process of its own, that serves mutagen's remote endpoint over a
// loopback connection. It is mutagen as its command line would run it, but for the transport. It
// is a module of its own, so that mutagen is no dependency of Sandbar; without the build tag
// mutagensspl all of what it takes is under mutagen's MIT licence.
//
// It prints "agent PID", and "watching" each time the session has nothing left to do after it
// had, and ends when its input does.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/mutagen-io/mutagen/pkg/logging"
	"github.com/mutagen-io/mutagen/pkg/selection"
	"github.com/mutagen-io/mutagen/pkg/synchronization"
	"github.com/mutagen-io/mutagen/pkg/synchronization/core"
	"github.com/mutagen-io/mutagen/pkg/synchronization/endpoint/remote"
	_ "github.com/mutagen-io/mutagen/pkg/synchronization/protocols/local" // where the files are
	"github.com/mutagen-io/mutagen/pkg/url"
)

func main() {
	source := flag.String("source", "", "directory to sync from")
	destination := flag.String("destination", "", "directory to sync to")
	watch := flag.String("watch", "portable", "mutagen's watch mode: portable or force-poll")
	agent := flag.String("agent", "", "serve a session's endpoint on a connection to this address")
	flag.Parse()
	ctx := context.Background()
	var err error
	if *agent != "" {
		err = serve(ctx, *agent)
	} else {
		err = run(ctx, *source, *destination, *watch)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutagen: %v\n", err)
		os.Exit(1)
	}
}

// serve is the agent.
func serve(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if err := remote.ServeEndpoint(logger(), conn); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func logger() *logging.Logger { return logging.NewLogger(logging.LevelError, os.Stderr) }

// loopback connects mutagen's sessions to an agent that it starts.
type loopback struct{}

// Connect implements synchronization.ProtocolHandler.
func (loopback) Connect(
	ctx context.Context, log *logging.Logger, to *url.URL, _, session string,
	version synchronization.Version, config *synchronization.Configuration, alpha bool,
) (synchronization.Endpoint, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	agent := exec.CommandContext(context.WithoutCancel(ctx), os.Args[0], "-agent", listener.Addr().String()) // #nosec G702 -- this program again
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		return nil, err
	}
	go func() { _ = agent.Wait() }() // it ends with the connection
	fmt.Println("agent " + strconv.Itoa(agent.Process.Pid))
	conn, err := listener.Accept()
	if err != nil {
		return nil, err
	}
	return remote.NewEndpoint(log, conn, to.Path, session, version, config, alpha)
}

func run(ctx context.Context, source, destination, watch string) error {
	mode := synchronization.WatchMode_WatchModePortable
	config := &synchronization.Configuration{SynchronizationMode: core.SynchronizationMode_SynchronizationModeOneWaySafe}
	if watch == "force-poll" {
		// One second is the shortest interval that mutagen has.
		mode, config.WatchPollingInterval = synchronization.WatchMode_WatchModeForcePoll, 1
	}
	config.WatchMode = mode
	// Mutagen's docker transport has URLs of a form that a loopback one fits into.
	synchronization.ProtocolHandlers[url.Protocol_Docker] = loopback{}
	manager, err := synchronization.NewManager(logger())
	if err != nil {
		return err
	}
	defer manager.Shutdown()
	none := &synchronization.Configuration{}
	id, err := manager.Create(ctx,
		&url.URL{Kind: url.Kind_Synchronization, Protocol: url.Protocol_Local, Path: source},
		&url.URL{Kind: url.Kind_Synchronization, Protocol: url.Protocol_Docker, Host: "loopback", Path: destination, Environment: map[string]string{}},
		config, none, none, "bench", nil, false, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		cancel()
	}()
	return tell(ctx, manager, id)
}

// tell prints when the session is done with what there was, until the context ends.
func tell(ctx context.Context, manager *synchronization.Manager, id string) error {
	var index uint64
	was := synchronization.Status_Disconnected
	for ctx.Err() == nil {
		next, states, err := manager.List(ctx, &selection.Selection{Specifications: []string{id}}, index)
		if err != nil && ctx.Err() == nil {
			return err
		}
		index = next
		for _, s := range states {
			if s.LastError != "" {
				return errors.New(s.LastError)
			}
			if s.Status == synchronization.Status_Watching && was != s.Status {
				fmt.Println("watching")
			}
			was = s.Status
		}
	}
	return nil
}
