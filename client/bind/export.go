// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The export that sandbar-provider init makes unless its operator chooses another name or workspace.
const (
	DefaultPath = "root:sandbar"
	DefaultName = "sandbar.dev"
)

// Export names a provider's APIExport.
type Export struct {
	// Path is that of the provider's workspace, for example root:sandbar.
	Path string
	// Name is that of the APIExport in it.
	Name string
}

// String returns the export as kcp writes it in its messages.
func (e Export) String() string { return e.Path + ":" + e.Name }

// workspacePath is what kcp takes for spec.reference.export.path.
var workspacePath = regexp.MustCompile("^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")

// ParseExport reads the path of a provider's workspace, perhaps with the export's name behind it, as kcp's own commands
// take it (root:sandbar:sandbar.dev). A name behind the path is recognized by its dot, which no workspace has in its name;
// without one the export's name is the argument name, or [DefaultName] if that is empty. An empty text is [DefaultPath].
func ParseExport(text, name string) (Export, error) {
	e := Export{Path: text, Name: name}
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.:") != "" {
		return Export{}, fmt.Errorf("%q is not the path of a workspace such as %s", text, DefaultPath)
	}
	if at := strings.LastIndex(text, ":"); at >= 0 && strings.Contains(text[at+1:], ".") {
		e.Path, e.Name = text[:at], text[at+1:]
		if name != "" && name != e.Name {
			return Export{}, fmt.Errorf("%q names the export %s, and the name %s is given too: leave one out", text, e.Name, name)
		}
	}
	if e.Path == "" {
		e.Path = DefaultPath
	}
	if e.Name == "" {
		e.Name = DefaultName
	}
	if !workspacePath.MatchString(e.Path) {
		return Export{}, fmt.Errorf("%q is not the path of a workspace such as %s", e.Path, DefaultPath)
	}
	if problems := validation.IsDNS1123Subdomain(e.Name); len(problems) > 0 {
		return Export{}, fmt.Errorf("%q is not the name of an APIExport such as %s", e.Name, DefaultName)
	}
	return e, nil
}
