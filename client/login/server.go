// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// clusters separates the address of kcp from the workspace.
const clusters = "/clusters/"

// workspace is a workspace's path, or the name of its logical cluster.
var workspace = regexp.MustCompile("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")

// ParseServer reads the address of a workspace as kubeconfigs have it, https://HOST/clusters/WORKSPACE, and returns it in one
// form. A credential goes there, so that it has to be https.
func ParseServer(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%q is not a URL such as https://kcp.example.com/clusters/root:alice", text)
	}
	at := strings.LastIndex(u.Path, clusters)
	switch {
	case u.Scheme == "http":
		return "", errors.New("the address begins with http://, and a credential does not travel in the clear: use https")
	case u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not an https URL such as https://kcp.example.com/clusters/root:alice", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the address of a workspace has no user, no query and no fragment")
	case at < 0:
		return "", fmt.Errorf("%q does not name a workspace: add %sWORKSPACE to it, for example https://%s%sroot:alice", text, clusters, u.Host, clusters)
	}
	name := strings.TrimRight(u.Path[at+len(clusters):], "/")
	if !workspace.MatchString(name) {
		return "", fmt.Errorf("%q is not a workspace such as root:alice", name)
	}
	return "https://" + hostOf(u) + strings.TrimRight(u.Path[:at], "/") + clusters + name, nil
}

// InWorkspace returns the address of another workspace of the server that an address leads to: for
// https://kcp.example.com/clusters/root:alice and root:team it is https://kcp.example.com/clusters/root:team. An address without
// a workspace gets one. The error is for a text that is not a workspace's path.
//
// The credential of the address goes to what is returned. A path with slashes or dots, such as root:team/../../elsewhere, would
// take it out of the server's workspaces and is refused.
func InWorkspace(address, path string) (string, error) {
	if !workspace.MatchString(path) {
		return "", fmt.Errorf("%q is not a workspace such as root:alice", path)
	}
	if at := strings.LastIndex(address, clusters); at >= 0 {
		address = address[:at]
	}
	return strings.TrimRight(address, "/") + clusters + path, nil
}

// hostOf is the host in lower case, with the port unless it is that of https.
func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if port := u.Port(); port != "" && port != "443" {
		return net.JoinHostPort(host, port)
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// ContextName is the name of a kubeconfig's context for an address that ParseServer has returned, for example
// root:alice@kcp.example.com.
func ContextName(server string) string {
	address, name, _ := strings.Cut(strings.TrimPrefix(server, "https://"), clusters)
	return name + "@" + address
}
