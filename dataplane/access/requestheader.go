// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/sandbar-dev/sandbar/tenant"
)

// RequestHeader says whose word on a caller's identity counts. Its fields mean what the flags of
// the same names mean to a Kubernetes API server.
type RequestHeader struct {
	// ClientCAFile is a PEM bundle. A peer whose client certificate it has signed is a front
	// proxy, and who it says the caller is, is believed. The file is read again when it changes.
	// Empty means that nobody is believed.
	ClientCAFile string
	// AllowedNames are the common names that a front proxy's certificate may have. Empty means
	// any, which is right only for a CA that signs nothing else.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders name the caller; the first of the first two
	// that is there counts, and all of the last. Default to X-Remote-User, X-Remote-Uid and
	// X-Remote-Group.
	UsernameHeaders, UIDHeaders, GroupHeaders []string
	// ExtraHeaderPrefixes begin the headers of extra keys, which are percent-encoded. Default to
	// X-Remote-Extra-.
	ExtraHeaderPrefixes []string
}

// SetDefaults fills in what is not set.
func (o *RequestHeader) SetDefaults() {
	for _, list := range []struct {
		field *[]string
		value string
	}{
		{&o.UsernameHeaders, "X-Remote-User"},
		{&o.UIDHeaders, "X-Remote-Uid"},
		{&o.GroupHeaders, "X-Remote-Group"},
		{&o.ExtraHeaderPrefixes, "X-Remote-Extra-"},
	} {
		if len(*list.field) == 0 {
			*list.field = []string{list.value}
		}
	}
}

// AddFlags adds the flags, which have the names that an API server's have.
func (o *RequestHeader) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ClientCAFile, "requestheader-client-ca-file", o.ClientCAFile,
		"PEM bundle that signs the client certificates of front proxies whose X-Remote-* headers are believed; empty believes nobody")
	fs.StringSliceVar(&o.AllowedNames, "requestheader-allowed-names", o.AllowedNames, "common names of front proxies' certificates; empty allows all that the CA has signed")
	fs.StringSliceVar(&o.UsernameHeaders, "requestheader-username-headers", o.UsernameHeaders, "headers of the caller's name")
	fs.StringSliceVar(&o.UIDHeaders, "requestheader-uid-headers", o.UIDHeaders, "headers of the caller's UID")
	fs.StringSliceVar(&o.GroupHeaders, "requestheader-group-headers", o.GroupHeaders, "headers of the caller's groups")
	fs.StringSliceVar(&o.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", o.ExtraHeaderPrefixes, "prefixes of the headers of what else is known of the caller")
}

// Validate reports everything that is wrong; insecure is whether the server has no TLS.
func (o *RequestHeader) Validate(insecure bool) error {
	var errs []error
	if o.ClientCAFile != "" && insecure {
		errs = append(errs, errors.New("requestheader-client-ca-file needs TLS, so it cannot be set with insecure"))
	}
	if o.ClientCAFile == "" && len(o.AllowedNames) > 0 {
		errs = append(errs, errors.New("requestheader-allowed-names needs requestheader-client-ca-file"))
	}
	for _, list := range [][]string{o.UsernameHeaders, o.UIDHeaders, o.GroupHeaders, o.ExtraHeaderPrefixes} {
		for _, name := range list {
			if strings.TrimSpace(name) == "" {
				errs = append(errs, errors.New("requestheader headers must have names"))
			}
		}
	}
	return errors.Join(errs...)
}

// FrontProxies is who may say who the caller is.
type FrontProxies struct {
	ca      *dynamiccertificates.DynamicFileCAContent
	request authenticator.Request
	headers RequestHeader
}

// NewFrontProxies reads the CA; nil if nobody is believed.
func NewFrontProxies(o RequestHeader) (*FrontProxies, error) {
	if o.ClientCAFile == "" {
		return nil, nil //nolint:nilnil // nil believes nobody
	}
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("requestheader", o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of front proxies: %w", err)
	}
	static := func(names []string) headerrequest.StaticStringSlice { return names }
	return &FrontProxies{
		ca: ca, headers: o,
		// system:authenticated is added as API servers add it: kcp's policies ask for it.
		request: group.NewAuthenticatedGroupAdder(headerrequest.NewDynamicVerifyOptionsSecure(ca.VerifyOptions,
			static(o.AllowedNames), static(o.UsernameHeaders), static(o.UIDHeaders), static(o.GroupHeaders), static(o.ExtraHeaderPrefixes))),
	}, nil
}

// Run reads the CA again when it changes, until ctx ends.
func (f *FrontProxies) Run(ctx context.Context) {
	if f != nil {
		f.ca.Run(ctx, 1)
	}
}

// Identify believes a front proxy, and nobody else: what others say in these headers is removed
// and otherwise as if it were not there. The certificate is verified for each request, so that a
// CA that was taken out of the file counts no longer on connections that are open.
func (f *FrontProxies) Identify(r *http.Request) (tenant.Caller, bool) {
	if f == nil {
		return tenant.Caller{}, false
	}
	response, ok, err := f.request.AuthenticateRequest(r)
	f.Strip(r.Header)
	if err != nil || !ok {
		return tenant.Caller{}, false
	}
	user := response.User
	extra := make(map[string]authenticationv1.ExtraValue, len(user.GetExtra()))
	for key, values := range user.GetExtra() {
		extra[key] = values
	}
	return tenant.Subject(authenticationv1.UserInfo{
		Username: user.GetName(), UID: user.GetUID(), Groups: user.GetGroups(), Extra: extra,
	}), true
}

// Strip removes the headers that name the caller.
func (f *FrontProxies) Strip(h http.Header) {
	if f == nil {
		return
	}
	static := func(names []string) headerrequest.StaticStringSlice { return names }
	headerrequest.ClearAuthenticationHeaders(h, static(f.headers.UsernameHeaders), static(f.headers.UIDHeaders),
		static(f.headers.GroupHeaders), static(f.headers.ExtraHeaderPrefixes))
}

// Ask makes a TLS server ask for a client certificate, and name the CA, so that browsers, which
// come here for previews, do not offer people a choice of certificates that would not count. What
// is shown is verified per request: a wrong certificate is no certificate.
func (f *FrontProxies) Ask(base *tls.Config) {
	if f == nil {
		return
	}
	base.ClientAuth = tls.RequestClientCert
	plain := base.Clone()
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config := plain.Clone()
		if options, ok := f.ca.VerifyOptions(); ok {
			config.ClientCAs = options.Roots
		}
		return config, nil
	}
}
