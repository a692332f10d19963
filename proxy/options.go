// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Defaults of Options and Limits.
const (
	DefaultAdminAddress   = ":15080"
	DefaultDrain          = 30 * time.Second
	DefaultConnections    = 4000
	DefaultCopyRequests   = 512
	DefaultCopiesRequests = 4096
)

// Limits that are not an operator's to set.
const (
	// MaxHeaderBytes is how long the header of a request, or of an answer, is at most. net/http adds 4 KiB of grace.
	MaxHeaderBytes = 64 << 10
	// HeaderTimeout is how long the header of a request takes at most, from its first byte on.
	HeaderTimeout = 30 * time.Second
	// IdleTimeout is how long a connection waits for its next request. It is longer than clients wait, so that they are
	// the ones who close: a connection that is closed here may have a request on its way.
	IdleTimeout = time.Hour
	// UntakenTimeout is how long a client may take nothing of what it is sent. The kernel ends the connection then.
	UntakenTimeout = 5 * time.Minute
	// BackendUntakenTimeout is how long the node of the baseline or of a copy may acknowledge nothing of what it is sent over
	// HTTP, and BackendSilentTimeout how long it may answer nothing at all. Its connection ends then: a node that is gone
	// says so to nobody, and Linux would go on for a quarter of an hour. What is not HTTP has UntakenTimeout for it: brokers
	// hold their clients up for minutes by reading nothing.
	BackendUntakenTimeout = 30 * time.Second
	BackendSilentTimeout  = 30 * time.Second
	// ShutTimeout is the same for a node that had no room for more of a request's body. It is asked whether it has, at first
	// soon and later each two minutes, so that two questions are without an answer. As long as it answers, nothing ends.
	ShutTimeout = 5 * time.Minute
	// DialTimeout is how long connecting to the baseline or to a copy takes at most.
	DialTimeout = 5 * time.Second
	// ProbeEvery is how often the proxy connects to the baseline by itself: until each port's has accepted a connection,
	// and while none does. LostAfter is how long none does, if one was tried, before the proxy is not ready any more.
	ProbeEvery = time.Second
	LostAfter  = 10 * time.Second
	// CheckEvery is how often the proxy asks the cluster's DNS whether its baseline still has the address of the Service behind, and
	// MovedAnswers how many answers in a row say that it has not before the proxy ends, to begin with the newest document.
	CheckEvery   = 10 * time.Second
	MovedAnswers = 3
	// MaxHTTP2Streams is how many requests a connection of HTTP/2 has under way at most, and MaxHTTP2CopyStreams how many
	// of them are with copies. What the client sends and a copy does not read stays in the connection's window of nearly
	// 4 MiB, of which a stream has 64 KiB: copies that read nothing leave a part of it to the baseline.
	MaxHTTP2Streams     = 1000
	MaxHTTP2CopyStreams = 48
	// PassIdle is how long a connection that is not HTTP, or is not any more, may be silent, which is as long as Linux
	// follows one through a Service by default. HalfPassIdle is the same once one side has said that it is done.
	PassIdle     = 5 * 24 * time.Hour
	HalfPassIdle = time.Hour

	http2StreamWindow     = 64 << 10
	http2ConnectionWindow = 4<<20 - 1
)

// Options are what an operator sets.
type Options struct {
	// Service is the name of the Service, whose document is the key intercept.Key of it. Required.
	Service string
	// Namespace is that of the ConfigMap with the document. Required.
	Namespace string
	// AdminAddress is where /healthz, /readyz and /metrics are served. Defaults to DefaultAdminAddress.
	AdminAddress string
	// AccessLog has a line of JSON written to Access for each request.
	AccessLog bool
	// Access defaults to standard output.
	Access io.Writer
	// Drain is how long the proxy goes on accepting connections after it was told to end, if connections are left.
	// Defaults to DefaultDrain.
	Drain time.Duration
	// Settle is how long it does so although no connection is left: the nodes still send new ones for a while. Defaults
	// to 5 seconds, and is never more than Drain.
	Settle time.Duration
	// Connections is how many clients' connections there are at most; more are closed at once. Defaults to
	// DefaultConnections.
	Connections int
	// CopyRequests is how many requests and upgraded connections one copy has under way at most, and CopiesRequests how
	// many all of them have; more are answered with 503. The baseline has no such limit. They default to
	// DefaultCopyRequests and DefaultCopiesRequests.
	CopyRequests, CopiesRequests int
	// Logger defaults to slog's own.
	Logger *slog.Logger
	// Lookup finds the addresses of a network, ip4 or ip6, that a name has. Defaults to the DNS of the pod; an answer that comes
	// from a part of what was asked for is an error.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

	// listen, if set, stands for net.ListenConfig.Listen in tests, which have no fixed ports.
	listen func(port int32) (net.Listener, error)
	// probe, if set, stands for a connection to the baseline that is made to see whether it accepts one, in tests whose
	// baselines count connections.
	probe func(ctx context.Context, address string) error
	// headerTimeout is HeaderTimeout outside of tests.
	headerTimeout time.Duration
	// untaken is BackendUntakenTimeout outside of tests.
	untaken time.Duration
}

// AddFlags adds the flags of the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.SetDefaults()
	flags.StringVar(&o.Service, "service", o.Service, "name of the Service in front of which the proxy is (required)")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the Service (required)")
	flags.StringVar(&o.AdminAddress, "admin", o.AdminAddress, "where /healthz, /readyz and /metrics are served")
	flags.BoolVar(&o.AccessLog, "access-log", o.AccessLog, "write a line of JSON for each request to standard output")
	flags.DurationVar(&o.Drain, "drain", o.Drain, "how long connections are accepted after SIGTERM, if some are left")
	flags.IntVar(&o.Connections, "max-connections", o.Connections, "how many connections of clients there are at most")
	flags.IntVar(&o.CopyRequests, "max-copy-requests", o.CopyRequests, "how many requests one copy has under way at most")
	flags.IntVar(&o.CopiesRequests, "max-copies-requests", o.CopiesRequests, "how many requests all copies have under way at most")
}

// SetDefaults sets what is not set.
func (o *Options) SetDefaults() {
	setDefault(&o.AdminAddress, DefaultAdminAddress)
	setDefault(&o.Drain, DefaultDrain)
	setDefault(&o.Settle, 5*time.Second)
	setDefault(&o.Connections, DefaultConnections)
	setDefault(&o.CopyRequests, DefaultCopyRequests)
	setDefault(&o.CopiesRequests, DefaultCopiesRequests)
	setDefault(&o.headerTimeout, HeaderTimeout)
	setDefault(&o.untaken, BackendUntakenTimeout)
	if o.probe == nil {
		o.probe = probe
	}
	if o.Lookup == nil {
		// A server that fails for one of the names of the search list must not make the answer "there is none".
		o.Lookup = (&net.Resolver{PreferGo: true, StrictErrors: true}).LookupNetIP
	}
	if o.Access == nil {
		o.Access = os.Stdout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

func setDefault[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}

// Validate reports the first option that is wrong, by its flag.
func (o *Options) Validate() error {
	if len(validation.IsDNS1035Label(o.Service)) > 0 {
		return fmt.Errorf("--service: %q is not the name of a Service", o.Service)
	}
	if len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		return fmt.Errorf("--namespace: %q is not the name of a namespace", o.Namespace)
	}
	if _, _, err := net.SplitHostPort(o.AdminAddress); err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	if o.Drain <= 0 {
		return errors.New("--drain: must be above 0")
	}
	if o.Connections < 1 || o.CopyRequests < 1 || o.CopiesRequests < 1 {
		return errors.New("--max-connections, --max-copy-requests, --max-copies-requests: must be above 0")
	}
	return nil
}
