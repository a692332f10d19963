// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"time"
)

// How long a preview can last. The provider may allow less.
const (
	MinPreview = time.Minute
	MaxPreview = 12 * time.Hour
)

// Preview is a way for a browser to what an instance serves. It needs no credential: opening
// the URL is enough, so hand it to the person that it is for and to nobody else.
type Preview struct {
	// URL is opened once, before Expires; it then gives way to the preview's own address.
	URL string `json:"url"`
	// Expires is when the URL can no longer be opened.
	Expires time.Time `json:"expirationTimestamp"`
	// SessionExpires is when the browser needs a new URL.
	SessionExpires time.Time `json:"sessionExpirationTimestamp"`
}

// PreviewOptions say what a preview shows, and for how long. The zero value is fine.
type PreviewOptions struct {
	// Path is the page to begin with; "/" by default.
	Path string `json:"path,omitempty"`
	// ExpirationSeconds is how long the browser may use the preview; as long as the provider allows
	// if zero. The provider may allow less: see Preview.SessionExpires.
	ExpirationSeconds int64 `json:"expirationSeconds,omitempty"`
	// RenewURL is where a browser is led that opens a page after that, with the page in the
	// parameter "path": it answers with a redirect to the URL of another Preview. It is an https URL,
	// or an http URL on localhost. Without one the browser shows that the preview has ended.
	RenewURL string `json:"renewURL,omitempty"`
}

// Preview makes a preview URL for the caller.
func (i *Instance) Preview(ctx context.Context, opts PreviewOptions) (*Preview, error) {
	preview := &Preview{}
	err := i.DoJSON(ctx, Request{Method: http.MethodPost, Verb: "proxy-url"}, opts, preview)
	if err != nil {
		return nil, err
	}
	return preview, nil
}

// RevokePreviews ends all previews of the instance that were given out so far.
func (i *Instance) RevokePreviews(ctx context.Context) error {
	return i.DoJSON(ctx, Request{Method: http.MethodDelete, Verb: "proxy-url"}, nil, nil)
}
