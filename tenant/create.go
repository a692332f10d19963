// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxRefusalBytes bounds what is read of kcp's words about a write that it refuses.
	maxRefusalBytes = 64 << 10
	// maxWords bounds what is kept of them.
	maxWords = 2 << 10
)

// Written is kcp's answer to a write with the caller's own token.
type Written struct {
	Answer
	// Code is the HTTP status of a refusal, and zero otherwise: a Denied has it too.
	Code int
	// Words are what kcp tells the caller of a refusal, at most 2 KiB. They hold no credential.
	Words string
}

// Create creates an object with the caller's own token, and decodes what it became into out. Of ref all but the
// name counts: that is the object's, or made by kcp of its generateName. A Subject, who has no token, is Denied:
// the provider creates nothing in anybody's name.
//
// Without an answer the outcome is Unavailable, and the object may have been created.
func (c *Client) Create(ctx context.Context, caller Caller, ref Ref, obj, out any) Written {
	if _, ok := caller.User(); ok {
		return Written{Answer: Answer{Outcome: Denied}}
	}
	if caller.IsZero() {
		return Written{Answer: Answer{Outcome: Unauthorized}}
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return Written{Answer: Answer{Err: fmt.Errorf("encoding an object: %w", err)}}
	}
	u := c.in(ref, url.Values{"fieldManager": {userAgent}, "fieldValidation": {metav1.FieldValidationStrict}})
	req := newRequest(ctx, http.MethodPost, u, acceptObject, body)
	caller.authenticate(req.Header)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return Written{Answer: Answer{Err: fmt.Errorf("asking kcp: %w", err)}}
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusCreated {
		return Written{Answer: decode(res, out)}
	}
	written := Written{Answer: refusal(res), Code: res.StatusCode, Words: wordsOf(res, caller)}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		written.Answer = Answer{Outcome: Refused}
	}
	return written
}

// wordsOf are kcp's own about a refusal, which are the caller's to know: the request was the caller's.
func wordsOf(res *http.Response, caller Caller) string {
	data, err := io.ReadAll(io.LimitReader(res.Body, maxRefusalBytes)) //nolint:forbidigo // maxRefusalBytes
	var status metav1.Status
	if err != nil || json.Unmarshal(data, &status) != nil || status.Kind != "Status" || caller.IsIn(status.Message) {
		return ""
	}
	words := strings.ToValidUTF8(status.Message[:min(len(status.Message), maxWords)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, words)
}

// List reads the metadata of the objects of ref's resource and namespace that a label selector finds.
func (c *Client) List(ctx context.Context, caller Caller, ref Ref, selector string) ([]metav1.PartialObjectMetadata, Answer) {
	if _, ok := caller.User(); ok {
		return nil, Answer{Outcome: Denied}
	}
	var list metav1.PartialObjectMetadataList
	answer := c.do(ctx, caller, http.MethodGet, c.in(ref, url.Values{"labelSelector": {selector}}), acceptMetadataList, nil, &list)
	return list.Items, answer
}

// in is the address of the objects of ref's resource and namespace, with a query.
func (c *Client) in(ref Ref, query url.Values) *url.URL {
	u := join(c.base, append([]string{"clusters", ref.Workspace}, ref.collection()...)...)
	u.RawQuery = query.Encode()
	return u
}
