// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// maxExecArguments and maxExecBytes bound a command: its arguments, and their bytes together.
	// The limit of a request's target would end it soon after.
	maxExecArguments = 1000
	maxExecBytes     = 16 << 10

	// protocolRemoteCommand is version 5 of Kubernetes' remote command protocol. Earlier versions
	// cannot say that the input has ended.
	protocolRemoteCommand = execwire.PodProtocol
	// PortForwardProtocol is SPDY in a WebSocket, as kubectl has it. The API server leaves the
	// WebSocket to itself and what is in it to the kubelet.
	PortForwardProtocol = "SPDY/3.1+portforward.k8s.io"
)

var errOtherProtocol = errors.New("the runtime API server chose no subprotocol that was offered")

// podProtocols are the subprotocols that a subresource of a Pod speaks.
func podProtocols(subresource string) []string {
	if subresource == contract.PodPortForward {
		return []string{PortForwardProtocol}
	}
	return []string{protocolRemoteCommand}
}

// CheckPodUpgrade lets the WebSockets pass that a subresource of a Pod speaks. SPDY without a
// WebSocket around it, the older way of kubectl, begins with a POST.
func CheckPodUpgrade(r *http.Request, subresource string) *refusal.Error {
	protocols := podProtocols(subresource)
	if len(r.Header["Upgrade"]) != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), protocolWebSocket) {
		return &refusal.Error{
			Code: http.StatusUpgradeRequired, Reason: metav1.StatusReasonBadRequest, Cause: refusal.CauseUpgrade, Protocols: protocols,
			Message: "this verb is a WebSocket, over HTTP/1.1, with the subprotocol " + strings.Join(protocols, " or ") + "; SPDY is not offered",
		}
	}
	return CheckUpgrade(r)
}

// podHandshake puts into out what the API server needs of a caller's handshake. Subprotocols are
// filtered, not only because the caller's token may be among them: the API server serves older ones
// too, with other meanings of the same bytes.
func podHandshake(out, in http.Header, subresource string) *refusal.Error {
	key := in["Sec-Websocket-Key"]
	if len(key) != 1 || !isNonce(key[0]) {
		return RefusedUpgrade("the header Sec-WebSocket-Key must be there once, with 16 bytes in base64")
	}
	if version := in["Sec-Websocket-Version"]; len(version) != 1 || version[0] != "13" {
		return RefusedUpgrade("the header Sec-WebSocket-Version must be 13")
	}
	known := podProtocols(subresource)
	var chosen []string
	for _, offer := range access.WithoutBearerProtocol(in[access.ProtocolHeader], tenant.Caller{}) {
		for protocol := range strings.SplitSeq(offer, ",") {
			if protocol = strings.TrimSpace(protocol); slices.Contains(known, protocol) && !slices.Contains(chosen, protocol) {
				chosen = append(chosen, protocol)
			}
		}
	}
	if len(chosen) == 0 {
		refused := RefusedUpgrade("offer the subprotocol " + strings.Join(known, " or ") + " in the header Sec-WebSocket-Protocol")
		refused.Protocols = known
		return refused
	}
	out["Sec-Websocket-Key"], out["Sec-Websocket-Version"] = key, []string{"13"}
	out[access.ProtocolHeader] = []string{strings.Join(chosen, ", ")}
	return nil
}

func isNonce(s string) bool {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(b) == 16
}

// judgeSwitch looks at the 101 of the API server, and keeps of its header what the handshake needs.
// Without a subprotocol that both know, the bytes that follow would mean something else to each.
func judgeSwitch(offered, answered http.Header) *refusal.Error {
	protocol := answered.Get(access.ProtocolHeader)
	for name := range answered {
		if name != "Sec-Websocket-Accept" && name != access.ProtocolHeader {
			delete(answered, name)
		}
	}
	if !slices.Contains(strings.Split(offered.Get(access.ProtocolHeader), ", "), protocol) {
		return refusal.BadGateway(refusal.CauseBadAnswer, "the runtime cluster's API server does not speak what this verb needs: tell the operator that it takes Kubernetes 1.31 or later", errOtherProtocol)
	}
	return nil
}

// podStreamQuery makes the query for a subresource of a Pod from the caller's. It is parsed strictly
// and written anew, so that nobody behind us reads another command from it than was looked at here.
func podStreamQuery(raw string, to *locate.Target) (url.Values, *refusal.Error) {
	in, err := url.ParseQuery(raw)
	if err != nil {
		return nil, refusal.Malformed("the query is not made of name=value, joined by & and percent-encoded")
	}
	if to.Subresource == contract.PodPortForward {
		if len(in) > 0 {
			return nil, refusal.Malformed("this verb takes no parameters: ports are named in the stream")
		}
		return in, nil
	}
	out, named, refused := remoteCommand(in, to.Subresource == contract.PodExec)
	if refused != nil {
		return nil, refused
	}
	container, refused := to.ChooseContainer(named)
	if refused != nil {
		return nil, refused
	}
	if !locate.Running(to.Pod, container) {
		return nil, refusal.NotReady("the container does not run: wait for the instance's condition Ready, or look at its log", nil)
	}
	out.Set("container", container)
	return out, nil
}

// remoteCommand reads the parameters of exec and attach, which are those of Kubernetes.
func remoteCommand(in url.Values, withCommand bool) (out url.Values, container string, refused *refusal.Error) {
	out = url.Values{}
	for name, values := range in {
		switch name {
		case "stdin", "stdout", "stderr", "tty":
			on, ok := parseSwitch(values)
			if !ok {
				return nil, "", refusal.Malformed(name + " must be true or false, once")
			}
			if on {
				out.Set(name, "true")
			}
		case "container":
			if len(values) != 1 || !locate.IsLabel(values[0]) {
				return nil, "", refusal.Malformed("container must be the name of a container, once")
			}
			container = values[0]
		case "command":
			if !withCommand {
				return nil, "", refusal.Malformed("this verb takes no command: it attaches to the container's own")
			}
			if refused := checkCommand(values); refused != nil {
				return nil, "", refused
			}
			out[name] = values
		default:
			return nil, "", refusal.Malformed("the parameters are command (one per argument), container, stdin, stdout, stderr and tty, and no others")
		}
	}
	switch {
	case withCommand && !out.Has("command"):
		return nil, "", refusal.Malformed("command is missing: the program and each of its arguments are a parameter command of their own")
	case !out.Has("stdin") && !out.Has("stdout") && !out.Has("stderr"):
		return nil, "", refusal.Malformed("at least one of stdin, stdout and stderr must be true")
	}
	return out, container, nil
}

func parseSwitch(values []string) (on, ok bool) {
	if len(values) != 1 {
		return false, false
	}
	switch values[0] {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return false, false
}

// checkCommand looks at a command's arguments. A NUL would end one early for the kernel, and what is
// not UTF-8 does not reach the kubelet as it was.
func checkCommand(arguments []string) *refusal.Error {
	size := 0
	for _, argument := range arguments {
		size += len(argument)
		if !utf8.ValidString(argument) || strings.Contains(argument, "\x00") {
			return refusal.Malformed("command must be UTF-8 text without NUL")
		}
	}
	switch {
	case arguments[0] == "":
		return refusal.Malformed("the first command parameter, the program, must not be empty")
	case len(arguments) > maxExecArguments:
		return refusal.Malformed(fmt.Sprintf("the command has more than %d arguments: put them into a file (sandbar cp) or the command's input", maxExecArguments))
	case size > maxExecBytes:
		return refusal.Malformed(fmt.Sprintf("the command is larger than %d bytes: put it into a file (sandbar cp) or the command's input", maxExecBytes))
	}
	return nil
}
