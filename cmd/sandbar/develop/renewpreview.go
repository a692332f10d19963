// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sandbar-dev/sandbar/client"
)

// previewRenewal is where a browser on this machine gets another session for a preview when one has
// ended. It is known to the preview's sessions alone: other pages and other users of the machine do
// not know its path.
type previewRenewal struct {
	url    string
	server *http.Server
}

// renewPreviews begins to renew previews of an instance, with the caller's own credential.
func renewPreviews(ctx context.Context, i *client.Instance, opts client.PreviewOptions) (*previewRenewal, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the browser: %w", err)
	}
	path := "/" + rand.Text()
	opts.RenewURL = "http://" + listener.Addr().String() + path
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		again := opts
		again.Path = r.URL.Query().Get("path")
		preview, err := i.Preview(r.Context(), again)
		if err != nil {
			http.Error(w, "The preview cannot be renewed: "+err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, preview.URL, http.StatusSeeOther)
	})
	renewal := &previewRenewal{url: opts.RenewURL, server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = renewal.server.Serve(listener) }()
	return renewal, nil
}

func (r *previewRenewal) stop() { _ = r.server.Close() }
