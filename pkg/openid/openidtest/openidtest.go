// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package openidtest is an OpenID provider that errs as it is told to. hack/openid has the tests with a real one.
package openidtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// DeviceGrant is the grant of a login on another device (RFC 8628, 3.4).
const DeviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// ClientID is that of the issuer's one client.
const ClientID = "sandbar"

// Issuer is a provider at which everybody is alice. It gives a new refresh token for each one.
type Issuer struct {
	Server *httptest.Server

	mu sync.Mutex
	// Before sees each request, and answers it if it returns true.
	before func(http.ResponseWriter, *http.Request) bool
	// metadata are fields of the discovery document that are others.
	metadata map[string]any
	// invitation are fields of the answers to /device that are others.
	invitation map[string]any
	// claims are claims of ID tokens that are others; a nil claim is left out.
	claims map[string]any
	// noIDToken makes answers have none, foreignKeys makes the keys be others.
	noIDToken, foreignKeys bool

	key      *ecdsa.PrivateKey
	codes    map[string]url.Values
	devices  map[string]string
	refresh  map[string]bool
	requests []string
	serial   int
}

// New starts a provider, which ends with the test. Its server has a certificate of its own: see CA.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key, codes: map[string]url.Values{}, devices: map[string]string{}, refresh: map[string]bool{}}
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Server.Close)
	return i
}

// CA is the bundle that verifies the provider.
func (i *Issuer) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Server.Certificate().Raw})
}

// Before sets what sees each request, and answers it if it returns true.
func (i *Issuer) Before(see func(http.ResponseWriter, *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.before = see
}

// Metadata sets a field of the discovery document.
func (i *Issuer) Metadata(field string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.metadata == nil {
		i.metadata = map[string]any{}
	}
	i.metadata[field] = value
}

// Claim sets a claim of ID tokens; a nil claim is left out.
func (i *Issuer) Claim(name string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.claims == nil {
		i.claims = map[string]any{}
	}
	i.claims[name] = value
}

// Withhold makes the answers have no ID token, or makes the keys be those of somebody else.
func (i *Issuer) Withhold(idToken, keys bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.noIDToken, i.foreignKeys = idToken, keys
}

// Forget makes the provider know no refresh token any more.
func (i *Issuer) Forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.refresh)
}

// Known reports whether the provider takes a refresh token.
func (i *Issuer) Known(refreshToken string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.refresh[refreshToken]
}

// Requests returns the paths of the requests so far, those to /token with their grant.
func (i *Issuer) Requests() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.requests...)
}

// Count returns how many requests there were to a path.
func (i *Issuer) Count(path string) (n int) {
	for _, r := range i.Requests() {
		if r == path {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	path := r.URL.Path
	if grant := r.PostForm.Get("grant_type"); grant != "" {
		path += " " + grant
	}
	i.mu.Lock()
	i.requests = append(i.requests, path)
	before := i.before
	i.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		i.discovery(w)
	case "/auth":
		i.authorize(w, r)
	case "/token":
		i.token(w, r)
	case "/device":
		i.device(w, r)
	case "/keys":
		i.keys(w)
	case "/revoke":
		delete(i.refresh, r.PostForm.Get("token"))
	default:
		http.NotFound(w, r)
	}
}

func (i *Issuer) discovery(w http.ResponseWriter) {
	base := i.Server.URL
	doc := map[string]any{
		"issuer": base, "authorization_endpoint": base + "/auth", "token_endpoint": base + "/token", "jwks_uri": base + "/keys",
		"revocation_endpoint": base + "/revoke", "device_authorization_endpoint": base + "/device", "id_token_signing_alg_values_supported": []string{"ES256"},
		"scopes_supported": []string{"openid", "offline_access"},
	}
	maps.Copy(doc, i.metadata)
	send(w, http.StatusOK, doc)
}

// authorize logs alice in and sends her browser back.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("client_id") != ClientID || query.Get("code_challenge_method") != "S256" || query.Get("response_type") != "code" {
		http.Error(w, "not a client of this provider", http.StatusBadRequest)
		return
	}
	i.serial++
	code := fmt.Sprintf("code-%d", i.serial)
	i.codes[code] = query
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {query.Get("state")}}.Encode(), http.StatusFound)
}

// device begins a login on another device, which Answer decides. Its code is asked for once a second.
func (i *Issuer) device(w http.ResponseWriter, r *http.Request) {
	if r.PostForm.Get("client_id") != ClientID {
		send(w, http.StatusBadRequest, map[string]any{"error": "invalid_client"})
		return
	}
	i.serial++
	code := fmt.Sprintf("device-%d", i.serial)
	i.devices[code] = "authorization_pending"
	answer := map[string]any{
		"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": i.Server.URL + "/page",
		"verification_uri_complete": i.Server.URL + "/page?user_code=WDJB-MJHT", "expires_in": 300, "interval": 1,
	}
	maps.Copy(answer, i.invitation)
	send(w, http.StatusOK, answer)
}

// Invitation sets a field of the answers that begin a login on another device.
func (i *Issuer) Invitation(field string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.invitation == nil {
		i.invitation = map[string]any{}
	}
	i.invitation[field] = value
}

// Answer decides all logins on another device that wait: with the error of RFC 8628, 3.5, or none if alice allows them.
func (i *Issuer) Answer(problem string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for code := range i.devices {
		i.devices[code] = problem
	}
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	form, nonce := r.PostForm, ""
	switch form.Get("grant_type") {
	case "authorization_code":
		asked, known := i.codes[form.Get("code")]
		delete(i.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !known || base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") || form.Get("redirect_uri") != asked.Get("redirect_uri") {
			send(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "the code is not known"})
			return
		}
		nonce = asked.Get("nonce")
	case DeviceGrant:
		if state := i.devices[form.Get("device_code")]; state != "" {
			send(w, http.StatusBadRequest, map[string]any{"error": state})
			return
		}
		if _, known := i.devices[form.Get("device_code")]; !known {
			send(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "the device code is not known"})
			return
		}
		delete(i.devices, form.Get("device_code"))
	default:
		if !i.refresh[form.Get("refresh_token")] {
			send(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "the refresh token is not known"})
			return
		}
		delete(i.refresh, form.Get("refresh_token"))
	}
	i.serial++
	next := fmt.Sprintf("refresh-%d", i.serial)
	i.refresh[next] = true
	answer := map[string]any{"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "refresh_token": next}
	if !i.noIDToken {
		answer["id_token"] = i.idToken(nonce)
	}
	send(w, http.StatusOK, answer)
}

// idToken signs a token with ES256 (RFC 7518, 3.4).
func (i *Issuer) idToken(nonce string) string {
	claims := map[string]any{
		"iss": i.Server.URL, "aud": ClientID, "sub": "alice", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "jti": i.serial,
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	for name, value := range i.claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	content, _ := json.Marshal(claims) //nolint:errchkjson // of JSON's own types
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"1"}`)) + "." + base64.RawURLEncoding.EncodeToString(content)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		panic(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (i *Issuer) keys(w http.ResponseWriter) {
	key := &i.key.PublicKey
	if i.foreignKeys {
		other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		key = &other.PublicKey
	}
	point, err := key.Bytes()
	if err != nil {
		panic(err)
	}
	send(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1",
		"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
	}}})
}

func send(w http.ResponseWriter, code int, obj map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(obj) //nolint:errchkjson // of JSON's own types
}
