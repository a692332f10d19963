// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/route/conformance"
)

// echo answers each message with its name before it, and fails a stream whose message is "fail".
func echo(name string) *grpc.StreamDesc {
	return &grpc.StreamDesc{StreamName: "Echo", ClientStreams: true, ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		in, _ := metadata.FromIncomingContext(stream.Context())
		stream.SetTrailer(metadata.Pairs("x-forwarded-for", strings.Join(in["x-forwarded-for"], ","), "x-name", name))
		for {
			var message wrapperspb.StringValue
			if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if message.GetValue() == "fail" {
				return status.Error(codes.FailedPrecondition, "told so by "+name)
			}
			if err := stream.SendMsg(wrapperspb.String(name + " " + message.GetValue())); err != nil {
				return err
			}
		}
	}}
}

func newGRPC(t *testing.T, name string) string {
	t.Helper()
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{*echo(name)}}, struct{}{})
	l := listenLocal(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return l.Addr().String()
}

func (w *world) grpc() *grpc.ClientConn {
	w.t.Helper()
	return w.grpcAt(w.address)
}

func (w *world) grpcAt(address string) *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// stream opens a stream with baggage in as many lines as there are values.
func stream(ctx context.Context, t *testing.T, conn *grpc.ClientConn, baggage ...string) grpc.ClientStream {
	t.Helper()
	var pairs []string
	for _, line := range baggage {
		pairs = append(pairs, "baggage", line)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	s, err := conn.NewStream(ctx, echo(""), "/test.Echo/Echo")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// say sends a message and waits for the answer to it.
func sayTo(t *testing.T, s grpc.ClientStream, message string) string {
	t.Helper()
	if err := s.SendMsg(wrapperspb.String(message)); err != nil {
		t.Fatal(err)
	}
	var answer wrapperspb.StringValue
	if err := s.RecvMsg(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.GetValue()
}

func TestGRPCStreamsBothWays(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newGRPC(t, baselineAnswered), newGRPC(t, copyAnswered))
	conn := w.grpc()
	s := stream(t.Context(), t, conn, ownBaggage)
	for _, message := range []string{"one", "two", strings.Repeat("x", 200_000)} {
		if got := sayTo(t, s, message); got != "copy "+message {
			t.Fatalf("answered %.40q", got)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
	if got := s.Trailer(); got.Get("x-name")[0] != "copy" || got.Get("x-forwarded-for")[0] != "127.0.0.1" {
		t.Errorf("the trailer is %v", got)
	}
}

func TestGRPCOfTheConformanceTable(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newGRPC(t, baselineAnswered), newGRPC(t, copyAnswered))
	conn := w.grpc()
	for _, c := range conformance.BaggageOf(ownID, otherID) {
		if strings.Contains(strings.Join(c.Lines, ""), "\t") {
			continue // clients of gRPC send none
		}
		want := map[bool]string{true: copyAnswered, false: baselineAnswered}[c.Routed]
		ctx, cancel := context.WithCancel(t.Context())
		if got := sayTo(t, stream(ctx, t, conn, c.Lines...), "x"); got != want+" x" {
			t.Errorf("%s: answered by %q, want the %s", c.Name, got, want)
		}
		cancel()
	}
}

// Errors that servers of gRPC send come with or without a message before, and those of the proxy are one of gRPC.
func TestErrorsOfGRPC(t *testing.T) {
	gone := closedAddress(t)
	w := newWorld(t, intercept.HTTP, newGRPC(t, baselineAnswered), gone)
	conn := w.grpc()
	fails := func(s grpc.ClientStream, code codes.Code, text string) {
		t.Helper()
		err := s.RecvMsg(new(wrapperspb.StringValue))
		if status.Code(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("failed with %v, want %s %q", err, code, text)
		}
	}
	s := stream(t.Context(), t, conn)
	_ = s.SendMsg(wrapperspb.String("fail"))
	fails(s, codes.FailedPrecondition, "told so by baseline")
	s = stream(t.Context(), t, conn)
	sayTo(t, s, "x")
	_ = s.SendMsg(wrapperspb.String("fail"))
	fails(s, codes.FailedPrecondition, "told so by baseline")
	unknown, err := conn.NewStream(t.Context(), echo(""), "/test.Unknown/Echo")
	if err != nil {
		t.Fatal(err)
	}
	fails(unknown, codes.Unimplemented, "unknown service")
	fails(stream(t.Context(), t, conn, ownBaggage), codes.Unavailable, "the copy of sandbox "+ownID+": it accepts no connection")
	if got := sayTo(t, stream(t.Context(), t, conn), "x"); got != "baseline x" {
		t.Errorf("the baseline answered %q", got)
	}
}

// Each client's connection has one of its own at the backend: with one for all, one pod of the Service would get all.
func TestClientsOfGRPCDoNotShareAConnection(t *testing.T) {
	peers := make(chan string, 8)
	server := newTCPRelay(t, newGRPC(t, baselineAnswered), peers)
	w := newWorld(t, intercept.HTTP, server, "")
	for range 3 {
		conn := w.grpc()
		sayTo(t, stream(t.Context(), t, conn), "x")
		sayTo(t, stream(t.Context(), t, conn), "x")
	}
	if n := len(peers); n != 3 {
		t.Errorf("three clients made %d connections, want 3", n)
	}
}
