// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
)

// imageKey is what a graph can read as platform.data.<key>Image: an identifier of CEL that is a
// key of a ConfigMap too. 57 characters, with "Image" after them, are few enough for both.
var imageKey = regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,56}$`)

// What the CRD of InfrastructureProvider admits as the URL of the data plane, in the words of its rules. The client refuses
// some addresses, since they could be those of other instances (client.AddressError), and no client would call a data
// plane that has one.
var (
	dataPlaneURL = regexp.MustCompile(`^https://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^/?#%\\\x00-\x20\x7f]+)*$`)
	oddSegment   = regexp.MustCompile(`^https://[^/]+/(.*/)?([.][.]?|clusters)(/.*)?$`)
)

// CheckDataPlaneURL tells why a URL cannot be that of the data plane, which is published to all
// tenants. Slashes at its end do not count.
func CheckDataPlaneURL(address string) error {
	u, err := url.Parse(address)
	base := strings.TrimRight(address, "/")
	switch {
	case err == nil && u.User != nil:
		// Not repeated, for it may hold a password.
		return fmt.Errorf("must be without a user: every tenant can read it; give https://%s%s", u.Host, u.Path)
	case err != nil || !dataPlaneURL.MatchString(base):
		return fmt.Errorf("must be https://HOST[:PORT][/PATH], not %q: tenants send their tokens there; a path has no percent sign, backslash, space or empty segment", address)
	case oddSegment.MatchString(base):
		return fmt.Errorf("must not have ., .. or clusters as a segment of its path, as %q has: clients refuse such an address; serve the data plane under another path", address)
	}
	return nil
}

// CheckPreviewDomain tells why previews cannot be served below a domain; an empty one means none.
func CheckPreviewDomain(domain, dataPlaneURL string) error {
	if domain == "" {
		return nil
	}
	previews, err := preview.ParseDomain(domain)
	if err != nil {
		return err
	}
	// Every host below the domain is a preview or nothing, also that of the data plane.
	if u, err := url.Parse(dataPlaneURL); err == nil {
		if _, below, _ := previews.Match(u.Host); below {
			return fmt.Errorf("must not be above %s, where the data plane is: choose one beside it, for example preview.%s", u.Hostname(), u.Hostname())
		}
	}
	return nil
}

// CheckServiceAccount reports why a text does not name a ServiceAccount; an empty one names none.
func CheckServiceAccount(name string) error {
	if name == "" {
		return nil
	}
	namespace, account, ok := strings.Cut(name, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(account)) > 0 {
		return fmt.Errorf("%q is not a NAMESPACE/NAME such as %s", name, DefaultKroServiceAccount)
	}
	return nil
}

// CheckImages tells why images cannot be given to graphs.
func CheckImages(images map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(images)) {
		if !imageKey.MatchString(key) {
			return fmt.Errorf("the key %q must begin with a lower-case letter and have up to 57 letters and digits: "+
				"graphs read it as platform.data.<key>Image; rename it, for example runner=REFERENCE", key)
		}
		if image := images[key]; image == "" || strings.ContainsFunc(image, notInAReference) {
			return fmt.Errorf("the key %q has the image %q, which is no reference; give one such as %s=registry.example/%s:1.2", key, image, key, strings.ToLower(key))
		}
	}
	return nil
}

// notInAReference is true of white space and control characters, which are all that is looked
// for: whether there is such an image only the node can tell.
func notInAReference(r rune) bool { return r <= ' ' || r == 0x7f }
