// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/tenant"
)

// What a front knows of a caller must not reach a pod: the front's word on who calls is a
// credential where the pod, or a service that the pod can reach, trusts that front, and some of it
// is the caller's own token. The tables below say what fronts are known to add; the operator adds
// what its own front does (--hub-headers, --hub-cookies).

// withheldHeaders are request headers that no pod gets. docs/headers.md shows the table.
var withheldHeaders = []known{
	{"Authorization", "the caller: the token for kcp"},
	{"Proxy-Authorization", "the caller: a credential for a proxy"},
	{"X-Sandbox-Control-*", "the data plane alone"},
	{"Impersonate-*", "Kubernetes and kcp: who a request acts as"},
	{"X-Remote-*", "front proxies of Kubernetes and kcp: who calls"},
	{"X-Kedge-*", "the kedge hub: tenant and user"},

	{"Forwarded", "RFC 7239: where the request came from"},
	{"X-Forwarded-*", "proxies of all kinds: address, host, and oauth2-proxy's user, groups and access token"},
	{"X-Real-Ip", "nginx by convention: address"},
	{"X-Client-Ip", "Azure, Rackspace: address"},
	{"True-Client-Ip", "Akamai, Cloudflare: address"},
	{"X-Cluster-Client-Ip", "Riverbed, Rackspace: address"},
	{"X-Original-*", "nginx auth_request, IIS, Azure Application Gateway: URL and host before a rewrite"},
	{"X-Rewrite-Url", "IIS: the URL before a rewrite"},
	{"Proxy", "nobody: CGI makes the variable HTTP_PROXY of it (httpoxy, CVE-2016-5385)"},
	{"X-Accel-*", "nginx, for Rack::Sendfile, which then says where files are (CVE-2025-61780)"},
	{"X-Sendfile-Type", "the same, for Apache and lighttpd"},
	{"Baggage", "OpenTelemetry: what systems in front note of a caller"},
	{"Tracestate", "W3C trace context: the same. A traceparent is two random numbers, and passes"},

	{"X-Amzn-Oidc-*", "AWS load balancers: identity, claims and access token"},
	{"X-Amzn-Mtls-*", "AWS load balancers: client certificate"},
	{"X-Amzn-Ava-*", "AWS Verified Access: user"},
	{"X-Amz-Security-Token", "AWS: session token"},
	{"Cf-*", "Cloudflare: Access assertion and token, address, client certificate"},
	{"X-Goog-*", "Google Cloud: IAP assertion, user, metadata"},
	{"X-Serverless-Authorization", "Google Cloud Run: identity token"},
	{"X-Appengine-*", "Google App Engine: user, address"},
	{"X-Endpoint-Api-*", "Google Cloud Endpoints: claims"},
	{"X-Apigateway-Api-*", "Google API Gateway: claims"},
	{"X-Ms-Token-*", "Azure App Service: access, ID and refresh tokens"},
	{"X-Ms-Client-Principal*", "Azure App Service: user and claims"},
	{"X-Arr-Clientcert", "Azure App Service: client certificate"},
	{"X-Azure-*", "Azure Front Door: address, its own proof"},
	{"Fastly-*", "Fastly: address, client"},
	{"Fly-*", "Fly.io: address, client"},
	{"X-Vercel-*", "Vercel: OIDC token, address"},
	{"X-Nf-*", "Netlify: account, address"},
	{"Ngrok-Auth-*", "ngrok: user"},
	{"Tailscale-*", "Tailscale Serve: user"},
	{"X-Replit-*", "Replit: user"},
	{"X-Tunnel-Authorization", "Microsoft dev tunnels: access token"},

	{"X-Auth-Request-*", "oauth2-proxy behind nginx: user, groups and access token"},
	{"Gap-Auth", "oauth2-proxy: user"},
	{"X-Pomerium-*", "Pomerium: assertion, claims"},
	{"X-Authentik-*", "authentik: user, groups, token"},
	{"Remote-*", "Authelia, caddy forward_auth: user, groups, mail"},
	{"X-Vouch-*", "Vouch Proxy: user, tokens"},
	{"X-Token-*", "caddy-security: user"},
	{"X-Webauth-*", "proxies in front of Grafana and Gerrit: user"},
	{"X-Authenticated-*", "Kong, and by convention: user, groups, scope"},
	{"X-Consumer-*", "Kong: consumer"},
	{"X-Credential-*", "Kong: credential of the consumer"},
	{"X-Anonymous-Consumer", "Kong: consumer"},
	{"X-Userinfo", "Kong and APISIX with OpenID Connect: claims"},
	{"X-Id-Token", "Kong and APISIX with OpenID Connect: ID token"},
	{"X-Refresh-Token", "APISIX with OpenID Connect: refresh token"},
	{"X-Jwt-Assertion", "WSO2 API Manager: assertion"},
	{"X-Jwt-Payload", "Istio by convention: claims"},
	{"X-Auth-User*", "gatekeeper (louketo-proxy), nginx by convention: user"},
	{"X-Auth-Email", "gatekeeper (louketo-proxy): mail"},
	{"X-Auth-Groups", "gatekeeper (louketo-proxy): groups"},
	{"X-Auth-Roles", "gatekeeper (louketo-proxy): roles"},
	{"X-Auth-Subject", "gatekeeper (louketo-proxy): subject"},
	{"Oidc-*", "mod_auth_openidc: claims, access and ID tokens"},
	{"Mellon-*", "mod_auth_mellon: SAML attributes"},
	{"Shib-*", "Shibboleth: SAML attributes"},
	{"Iv-*", "IBM WebSEAL: user, groups, credentials"},
	{"Sm-*", "SiteMinder: user, session"},
	{"Oam-*", "Oracle Access Manager: user"},
	{"Osso-*", "Oracle Single Sign-On: user"},
	{"Teleport-*", "Teleport: assertion"},
	{"Kubeflow-*", "Kubeflow: user"},
	{"Ynh-*", "YunoHost: user"},
	{"Sf-Context-*", "Snowflake: user, token"},
	{"Rstudio-Connect-*", "Posit Connect: user"},
	{"Posit-Connect-*", "Posit Connect: session token"},
	{"Databricks-*", "Databricks: user"},

	{"Client-Cert*", "RFC 9440: client certificate"},
	{"X-Client-Cert*", "HAProxy, nginx, Google and F5 by convention: client certificate"},
	{"X-Client-Dn", "HAProxy, nginx by convention: the certificate's subject"},
	{"X-Client-Verify", "nginx by convention: whether the certificate is good"},
	{"X-Ssl-*", "HAProxy, nginx by convention: client certificate"},
	{"Ssl-Client-*", "ingress-nginx: client certificate"},
	{"X-Envoy-*", "Envoy and Istio: address, peer, and orders to the next Envoy"},
	{"L5d-*", "Linkerd: client, and orders to the next proxy"},
	{"X-Spiffe-*", "service meshes: workload identity"},
	{"X-Consul-*", "Consul: token, partition"},
	{"X-Kuma-*", "Kuma: service"},
}

// withheldCookies are cookies that no pod gets: sessions of fronts. Browsers send them along
// wherever a front has set them for a domain above, or on the path of the data plane.
var withheldCookies = []known{
	{preview.CookieName, "the data plane: a preview's session"},
	{"CF_Authorization*", "Cloudflare Access: the assertion itself"},
	{"CF_AppSession*", "Cloudflare Access"},
	{"AWSELBAuthSessionCookie*", "AWS load balancers"},
	{"GCP_IAP_*", "Google IAP"},
	{"GCP_IAAP_*", "Google IAP"},
	{"__Host-GCP_IAP_*", "Google IAP"},
	{"AppServiceAuthSession*", "Azure App Service"},
	{"_oauth2_proxy*", "oauth2-proxy"},
	{"_oauth_proxy*", "OpenShift oauth-proxy"},
	{"AUTHP_*", "caddy-security"},
	{"authservice_session", "Kubeflow OIDC AuthService"},
	{"R_SESS", "Rancher"},
	{"__Host-_oauth2_proxy*", "oauth2-proxy"},
	{"__Secure-_oauth2_proxy*", "oauth2-proxy"},
	{"_pomerium*", "Pomerium"},
	{"authentik_*", "authentik"},
	{"authelia_session*", "Authelia"},
	{"VouchCookie*", "Vouch Proxy"},
	{"_forward_auth*", "traefik-forward-auth"},
	{"mod_auth_openidc_*", "mod_auth_openidc"},
	{"_shibsession_*", "Shibboleth"},
	{"mellon-*", "mod_auth_mellon"},
	{"kc-access*", "gatekeeper (louketo-proxy): the access token"},
	{"kc-state*", "gatekeeper (louketo-proxy): the refresh token"},
	{"OauthHMAC*", "Envoy's OAuth2 filter"},
	{"OauthExpires*", "Envoy's OAuth2 filter"},
	{"AccessToken-*", "Envoy Gateway: the access token"},
	{"IdToken-*", "Envoy Gateway: the ID token"},
	{"RefreshToken-*", "Envoy Gateway: the refresh token"},
	{"PD-S-SESSION-ID*", "IBM WebSEAL"},
	{"SMSESSION*", "SiteMinder"},
	{"OAMAuthnCookie*", "Oracle Access Manager"},
}

// neededHeaders are what no operator can withhold: without them a request is another.
var neededHeaders = []string{
	"Host", "Connection", "Upgrade", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding",
	"Sec-Websocket-Key", "Sec-Websocket-Version", access.ProtocolHeader, "Cookie",
}

// Filter decides what of a caller's request reaches a pod.
type Filter struct {
	headers *headerSet
	cookies []string
}

// NewFilter adds what the operator's own front adds to requests.
func NewFilter(headers, cookies []string) *Filter {
	return &Filter{
		headers: newHeaderSet(namesOf(withheldHeaders), headers),
		cookies: slices.Concat(namesOf(withheldCookies), cookies),
	}
}

// ValidateHubHeaders reports a flag that would withhold what pods need.
func ValidateHubHeaders(names []string) error {
	if err := ValidateNames("hub-headers", names); err != nil {
		return err
	}
	set := newHeaderSet(names)
	for _, needed := range neededHeaders {
		if set.has(needed) {
			return fmt.Errorf("hub-headers would withhold %s, without which pods get no request they can read", needed)
		}
	}
	return nil
}

// withholds reports whether a header must not reach a pod. Names with underscores go too: CGI and
// its heirs read X_Remote_User as X-Remote-User (oauth2-proxy, CVE-2025-64484), and so do names
// that HTTP does not allow, of which nobody knows how they are read.
func (f *Filter) withholds(name string) bool {
	return f.headers.has(http.CanonicalHeaderKey(name)) || strings.ContainsRune(name, '_') || !httpguts.ValidHeaderFieldName(name)
}

// strip takes from a header what no pod gets, whichever name the caller's own token came under: a
// front that adds it may call it what it likes.
func (f *Filter) strip(h http.Header, caller tenant.Caller) {
	for name, values := range h {
		switch {
		case f.withholds(name):
			delete(h, name)
		case name == "Cookie" || name == access.ProtocolHeader: // lists, of which the rest may pass
		case slices.ContainsFunc(values, caller.IsIn):
			delete(h, name)
		}
	}
}

// stripCookies takes from a Cookie header what no pod gets.
func (f *Filter) stripCookies(h http.Header, caller tenant.Caller) {
	cookies, ok := h["Cookie"]
	if !ok {
		return
	}
	kept := preview.Without(cookies, func(name, value string) bool { return f.isFrontsCookie(name) || caller.IsIn(value) })
	if kept == nil {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = kept
}

// isFrontsCookie compares without case, as some apps do.
func (f *Filter) isFrontsCookie(name string) bool {
	for _, front := range f.cookies {
		beginning, open := strings.CutSuffix(front, "*")
		if strings.EqualFold(name, front) || open && len(name) >= len(beginning) && strings.EqualFold(name[:len(beginning)], beginning) {
			return true
		}
	}
	return false
}
