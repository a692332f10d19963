// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/dataplane/access"
)

func TestAHubsCookiesDoNotReachPods(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.HubCookies = []string{"hub", "_session_*"} })
	for name, c := range map[string]struct {
		cookies, want []string
	}{
		"an app's cookies pass":                {[]string{"theme=dark; id=7"}, []string{"theme=dark; id=7"}},
		"a hub's cookie does not":              {[]string{"theme=dark; hub=s3cret; id=7"}, []string{"theme=dark; id=7"}},
		"nor in a line of its own":             {[]string{"theme=dark", "hub=s3cret"}, []string{"theme=dark"}},
		"nor in another case":                  {[]string{"HUB=s3cret; id=7"}, []string{"id=7"}},
		"nor twice":                            {[]string{"hub=a; id=7; hub=b"}, []string{"id=7"}},
		"nor with a space before its sign":     {[]string{"hub =s3cret; id=7"}, []string{"id=7"}},
		"nor one cut into pieces":              {[]string{"_session_0=a; _session_1=b; id=7"}, []string{"id=7"}},
		"nothing is left of a hub's alone":     {[]string{"hub=s3cret; _session_x=1"}, nil},
		"a name that only begins so passes":    {[]string{"hubert=1; _session=2"}, []string{"hubert=1; _session=2"}},
		"a value that looks like one passes":   {[]string{"id=hub=1"}, []string{"id=hub=1"}},
		"a cookie that is its own name passes": {[]string{"hubert"}, []string{"hubert"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.received("GET", demo+"proxy/x", "", func(r *http.Request) { r.Header["Cookie"] = c.cookies })
			if diff := cmp.Diff(c.want, got.Header["Cookie"]); diff != "" {
				t.Errorf("cookies at the pod (-want +got):\n%s", diff)
			}
		})
	}
}

// frontsWords are examples of what fronts say of callers, by the names that they use. They are
// written out, so that a name which is lost from the table is missed.
var frontsWords = []string{
	"X-Amzn-Oidc-Identity", "X-Amzn-Oidc-Data", "X-Amzn-Oidc-Accesstoken", "X-Amzn-Mtls-Clientcert", "X-Amzn-Ava-User-Context",
	"Cf-Access-Jwt-Assertion", "Cf-Access-Authenticated-User-Email", "Cf-Access-Token", "Cf-Access-Client-Secret", "Cf-Connecting-Ip",
	"X-Goog-Iap-Jwt-Assertion", "X-Goog-Authenticated-User-Email", "X-Goog-Authenticated-User-Id", "X-Serverless-Authorization",
	"X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Access-Token", "X-Forwarded-User", "X-Forwarded-Email",
	"X-Forwarded-Access-Token", "X-Forwarded-Groups", "X-Forwarded-Client-Cert", "X-Forwarded-Tls-Client-Cert",
	"X-Ms-Token-Aad-Access-Token", "X-Ms-Token-Google-Id-Token", "X-Ms-Client-Principal", "X-Ms-Client-Principal-Name", "X-Arr-Clientcert",
	"X-Pomerium-Jwt-Assertion", "X-Pomerium-Claim-Email", "X-Authentik-Username", "X-Authentik-Jwt", "Remote-User", "Remote-Groups",
	"X-Vouch-User", "X-Vouch-Idp-Accesstoken", "X-Token-Subject", "X-Webauth-User", "X-Consumer-Username", "X-Credential-Identifier",
	"X-Userinfo", "X-Id-Token", "X-Refresh-Token", "X-Jwt-Assertion", "Oidc-Claim-Sub", "Oidc-Access-Token", "Iv-User", "Sm-User", "Oam-Remote-User",
	"X-Ssl-Client-Cert", "Ssl-Client-Cert", "Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "X-Client-Certificate", "X-Client-Cert-Dn",
	"X-Envoy-External-Address", "X-Envoy-Peer-Metadata", "L5d-Client-Id", "X-Spiffe-Id", "X-Consul-Token",
	"Tailscale-User-Login", "Teleport-Jwt-Assertion", "Ngrok-Auth-User-Email", "X-Vercel-Oidc-Token", "Kubeflow-Userid", "Sf-Context-Current-User-Token",
	"X-Remote-User", "X-Remote-Extra-Scopes", "Impersonate-User", "X-Kedge-Tenant", "X-Real-Ip", "Forwarded", "X-Original-Url", "X-Rewrite-Url",
	"Proxy", "X-Accel-Mapping", "X-Sendfile-Type",
}

// appsWords are what looks like those and is an app's.
var appsWords = []string{
	"X-Api-Key", "X-Auth-Token", "X-Access-Token", "X-Csrf-Token", "X-Request-Id", "X-User-Id", "Cfg", "Flyby", "Remote", "X-Amzn-Trace-Id", "Traceparent",
	"X-Goo", "X-Client-Version", "Clienta", "X-Vouc", "Oidc", "Ivory", "Smile", "X-Sslish",
}

var frontsCookies = []string{
	"CF_Authorization", "CF_AppSession", "AWSELBAuthSessionCookie-0", "AWSELBAuthSessionCookie-1", "GCP_IAP_UID", "__Host-GCP_IAP_AUTH_TOKEN_8F1C",
	"AppServiceAuthSession", "AppServiceAuthSession1", "_oauth2_proxy", "_oauth2_proxy_0", "_oauth2_proxy_csrf", "_pomerium", "_pomerium_csrf",
	"authentik_session", "authentik_proxy_2a", "authelia_session", "VouchCookie", "VouchCookie_1of2", "_forward_auth", "mod_auth_openidc_session",
	"_shibsession_64", "kc-access", "kc-state", "OauthHMAC", "AccessToken-1a2b", "IdToken-1a2b", "SMSESSION", "PD-S-SESSION-ID", "cf_authorization",
}

// A front adds them to whatever the caller asks for; they must stop here on each way to a pod.
func TestWhatFrontsSayOfCallersReachesNoPod(t *testing.T) {
	w := newPreviewWorld(t, recorder(), func(s *setup) { s.opts.HubHeaders = []string{"x-hub-user", "X-Acme-*"} })
	session := w.enter(w.link(""))
	cookies := "theme=dark; " + strings.Join(frontsCookies, "=s3cret; ") + "=s3cret; IdTokenizer=1; kc=2"
	front := func(r *http.Request) {
		for _, name := range slices.Concat(frontsWords, appsWords, []string{"X-Hub-User", "X-Acme-Token", "X-Hub-Users"}) {
			r.Header.Set(name, "alice")
		}
		for name := range r.Header {
			if lower := strings.ToLower(name); lower != "cookie" && lower != "authorization" && !strings.Contains("accept-encoding user-agent connection upgrade", lower) {
				r.Header[strings.ReplaceAll(name, "-", "_")] = []string{"alice"}
			}
		}
		r.Header.Set("Cookie", strings.TrimPrefix(r.Header.Get("Cookie")+"; "+cookies, "; "))
	}
	upgrading := func(r *http.Request) {
		front(r)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Origin", "https://"+previewHost)
	}
	for name, ask := range map[string]func() (*http.Response, string){
		"a control verb":             func() (*http.Response, string) { return w.do("POST", demo+"sync", adminToken, nil, front) },
		"a stream":                   func() (*http.Response, string) { return w.do("GET", demo+"log", adminToken, nil, front) },
		"a control verb's WebSocket": func() (*http.Response, string) { return w.do("GET", demo+"echo", adminToken, nil, upgrading) },
		"the app by path":            func() (*http.Response, string) { return w.do("GET", demo+"proxy/x", adminToken, nil, front) },
		"its WebSocket":              func() (*http.Response, string) { return w.do("GET", demo+"proxy/x", adminToken, nil, upgrading) },
		"a preview":                  func() (*http.Response, string) { return w.browse("GET", "/x", session, front) },
		"a preview's WebSocket":      func() (*http.Response, string) { return w.browse("GET", "/x", session, upgrading) },
	} {
		t.Run(name, func(t *testing.T) {
			res, body := ask()
			var got received
			if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			for _, word := range slices.Concat(frontsWords, []string{"X-Hub-User", "X-Acme-Token"}) {
				if slices.Contains([]string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix"}, word) {
					continue
				}
				if got.Header.Get(word) != "" {
					t.Errorf("%s reached the pod", word)
				}
			}
			for header := range got.Header {
				if strings.Contains(header, "_") {
					t.Errorf("%s reached the pod", header)
				}
			}
			for _, word := range append(appsWords, "X-Hub-Users") {
				if got.Header.Get(word) != "alice" {
					t.Errorf("%s, which is an app's, did not reach it", word)
				}
			}
			want := ""
			if !strings.Contains(name, "control") && name != "a stream" {
				want = "theme=dark; IdTokenizer=1; kc=2"
			}
			if cookie := strings.Join(got.Header["Cookie"], "|"); cookie != want {
				t.Errorf("the pod got the cookies %q, want %q", cookie, want)
			}
		})
	}
}

// Whatever name a front gives to the header or the cookie in which it adds the caller's token.
func TestACallersTokenIsWithheldUnderAnyName(t *testing.T) {
	w := newWorld(t, recorder())
	encoded := base64.RawURLEncoding.EncodeToString([]byte(adminToken))
	got := w.received("GET", demo+"proxy/x", "", func(r *http.Request) {
		r.Header.Set("X-Access-Token", adminToken)
		r.Header.Set("X-Auth-Token", "JWT "+adminToken+";q=1")
		r.Header.Set("X-Proto", access.BearerProtocolPrefix+encoded)
		r.Header["X-Two"] = []string{"harmless", adminToken}
		r.Header.Set("X-App-Token", "another-token-of-the-app")
		r.Header.Set("Cookie", "a=1; jwt="+adminToken+"; b="+encoded+"; c=2")
	})
	text, _ := json.Marshal(got)
	if strings.Contains(string(text), adminToken) || strings.Contains(string(text), encoded) {
		t.Errorf("the pod got the caller's token: %s", text)
	}
	if got.Header.Get("X-App-Token") == "" || got.Header.Get("Cookie") != "a=1; c=2" {
		t.Errorf("what is an app's was lost: %v", got.Header)
	}
}
