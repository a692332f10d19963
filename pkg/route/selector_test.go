// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/route/conformance"
)

const ownID, otherID = "sbx-abcd1234", "sbx-wxyz9876"

// A header is searched (Traefik, each line by itself) or matched as a whole (Envoy, lines joined); both have to say the same.
func TestTheSelectorOfBaggage(t *testing.T) {
	selector, err := Selector("Baggage", ownID)
	if err != nil {
		t.Fatal(err)
	}
	if selector.Name != "baggage" || selector.Type != sandbarv1alpha1.RouteValueExpression {
		t.Fatalf("selector = %+v", selector)
	}
	searched, whole := regexp.MustCompile(selector.Value), regexp.MustCompile(`\A(?:`+selector.Value+`)\z`)
	for _, c := range conformance.BaggageOf(ownID, otherID) {
		t.Run(c.Name, func(t *testing.T) {
			byLine := false
			for _, line := range c.Lines {
				byLine = byLine || searched.MatchString(line)
			}
			if byLine != c.Routed {
				t.Errorf("searched in each line of %q: %t", c.Lines, byLine)
			}
			joined := strings.Join(c.Lines, ",")
			if got := len(c.Lines) > 0 && whole.MatchString(joined); got != c.Routed {
				t.Errorf("matched with %q as a whole: %t", joined, got)
			}
		})
	}
}

func TestTheSelectorOfAnotherHeader(t *testing.T) {
	selector, err := Selector("X-Sandbox", ownID)
	if want := (sandbarv1alpha1.SandboxRouteHeaderMatch{Type: "Exact", Name: "x-sandbox", Value: ownID}); err != nil || selector != want {
		t.Errorf("selector = %+v, %v, want %+v", selector, err, want)
	}
}

// An ID that is not one would select the requests of others.
func TestAnIDThatIsNotOneIsNotPutIntoAnExpression(t *testing.T) {
	for _, id := range []string{"", ".*", "sbx-.*......", "sbx-abcd1234|.*", "sbx-abcd1234\n", "sbx-ABCD1234", "sbx-abcd123", "sbx-abcd12345", "sbx-abcd)12", "(?i)sbx-abcd1234"} {
		for _, header := range []string{"baggage", "x-sandbox"} {
			if selector, err := Selector(header, id); err == nil {
				t.Errorf("%q in %s makes the selector %+v", id, header, selector)
			}
		}
	}
}

// selectorHeaders are names, with whether each may carry the ID. The schema is asked the same.
var selectorHeaders = map[string]bool{
	"baggage": true, "Baggage": true, "x-sandbox": true, "X-Sandbox": true, "x-request-id": true, "connections": true, "xhost": true,
	"x-forwarded": true, "te2": true, strings.Repeat("x", 256): true,
	"": false, "x sandbox": false, "x:sandbox": false, ":path": false, "x-sandböx": false, "x-sandbox\n": false, "x`sandbox": false,
	strings.Repeat("x", 257): false,
	"host":                   false, "Host": false, "HOST": false, "authorization": false, "cookie": false, "connection": false, "keep-alive": false,
	"proxy-connection": false, "proxy-authorization": false, "te": false, "trailer": false, "transfer-encoding": false, "upgrade": false,
	"forwarded": false, "content-length": false, "Content-Type": false, "x-forwarded-for": false, "X-Forwarded-Host": false,
	"x-remote-user": false, "X-Remote-Group": false, "impersonate-user": false, "Impersonate-Extra-a": false,
}

func TestWhichHeadersMayCarryTheID(t *testing.T) {
	for name, want := range selectorHeaders {
		_, err := Selector(name, ownID)
		if (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
		var refused *RefusedError
		if err != nil && (!errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.RouteInvalidSpec) {
			t.Errorf("%q: the error is not a refusal: %v", name, err)
		}
	}
}
