// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Purpose is what something sealed is for. What is sealed for one purpose does not open for
// another: a link that leaked is no session.
type Purpose byte

// Purposes.
const (
	// Link is for the first visit, which turns it into a Session.
	Link Purpose = 'L'
	// Session is what the cookie holds.
	Session Purpose = 'S'
)

const (
	// KeyBytes is the length of a key.
	KeyBytes = 32
	// MaxSealedBytes bounds what is looked at when something sealed is opened. A link has a path and
	// the address of its renewal beside what a session has.
	MaxSealedBytes = 8192
	// Skew is how far the clocks of two replicas may differ.
	Skew = 10 * time.Second

	// version begins whatever is sealed, so that the form can change.
	version = 1
	// maxKeyID bounds a key's name, which is in every link.
	maxKeyID = 32
)

// Reasons why something sealed does not open.
var (
	// ErrInvalid means that it was not sealed by us for this purpose and this host.
	ErrInvalid = errors.New("not sealed for this purpose and host")
	// ErrKey means that it names a key that is not there: removed, or never ours.
	ErrKey = errors.New("sealed with a key that is not there")
	// ErrExpired means that its time is over.
	ErrExpired = errors.New("expired")
	// ErrFuture means that it was issued later than now, so one of two clocks is wrong.
	ErrFuture = errors.New("issued in the future")
	// ErrNoKey means that there is no key to seal with.
	ErrNoKey = errors.New("no key to seal with")
)

// Claims are what a link or a session says: who may see which instance, and for how long.
type Claims struct {
	// Subject is who asked for the link, as kcp knows them. Each request is authorized anew
	// for this subject.
	Subject authenticationv1.UserInfo `json:"u"`
	// Cluster is the logical cluster name of the workspace.
	Cluster   string    `json:"c"`
	Group     string    `json:"g"`
	Version   string    `json:"v"`
	Resource  string    `json:"r"`
	Namespace string    `json:"ns"`
	Name      string    `json:"n"`
	UID       types.UID `json:"id"`
	// Placement is the namespace of the placement that the host is for; empty for the one that is made
	// for the instance (placement.Owner.Cold), which needs no room in a cookie.
	Placement string `json:"pl,omitempty"`
	Component string `json:"p,omitempty"`
	// Port is the number of a port of the pod; empty for the one that the Template names.
	Port string `json:"po,omitempty"`
	// Path is where a link leads; empty in a session.
	Path string `json:"to,omitempty"`
	// Renew is where another link can be had; empty for nowhere.
	Renew string `json:"rn,omitempty"`
	// IssuedAt is when the link was asked for, in nanoseconds since 1970; a session has that
	// of its link, so that whatever revokes the one revokes the other.
	IssuedAt int64 `json:"iat"`
	// Expires and SessionExpires are when the link and the session made of it end, in seconds
	// since 1970.
	Expires        int64 `json:"exp"`
	SessionExpires int64 `json:"se,omitempty"`
}

// Owner is the tenant's object.
func (c *Claims) Owner() placement.Owner { return placement.Owner{Cluster: c.Cluster, UID: c.UID} }

// SetPlacement says which placement the host is for.
func (c *Claims) SetPlacement(namespace string) {
	if c.Placement = namespace; namespace == c.Owner().Cold().Namespace() {
		c.Placement = ""
	}
}

// PlacementNamespace is the namespace of the placement that the host is for.
func (c *Claims) PlacementNamespace() string {
	if c.Placement != "" {
		return c.Placement
	}
	return c.Owner().Cold().Namespace()
}

// Issued is IssuedAt as a time; zero without claims.
func (c *Claims) Issued() time.Time {
	if c == nil {
		return time.Time{}
	}
	return time.Unix(0, c.IssuedAt)
}

// Ends is when a session ends, of which none lasts longer than most: what an operator shortens is
// shorter for those that were given out before, too.
func (c *Claims) Ends(most time.Duration) time.Time {
	end, latest := time.Unix(c.Expires, 0), c.Issued().Add(most)
	if latest.Before(end) {
		return latest
	}
	return end
}

// Session is what a link becomes at the first visit.
func (c *Claims) Session() *Claims {
	session := *c
	session.Path, session.Expires, session.SessionExpires = "", c.SessionExpires, 0
	return &session
}

// Keys seal and open. They do not change; other keys are another Keys.
type Keys struct {
	sealers map[string]cipher.AEAD
	newest  string
}

var keyID = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9._-]{1,%d}$`, maxKeyID))

// NewKeys takes keys by their names. The name that sorts last seals; all open. The error tells of
// entries that are no keys; the others are taken all the same, so that a slip in one entry does
// not end every preview.
func NewKeys(entries map[string][]byte) (*Keys, error) {
	k := &Keys{sealers: map[string]cipher.AEAD{}}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		if !keyID.MatchString(id) || len(entries[id]) != KeyBytes {
			errs = append(errs, fmt.Errorf("entry %q is no key: a key has %d bytes and a name of at most %d letters, digits, dots, hyphens and underscores", id, KeyBytes, maxKeyID))
			continue
		}
		block, err := aes.NewCipher(entries[id])
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %q: %w", id, err))
			continue
		}
		sealer, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %q: %w", id, err))
			continue
		}
		k.sealers[id], k.newest = sealer, id
	}
	return k, errors.Join(errs...)
}

// Empty tells whether there is no key to seal with.
func (k *Keys) Empty() bool { return k == nil || k.newest == "" }

// Seal seals claims for a purpose and a host.
func (k *Keys) Seal(purpose Purpose, host string, claims *Claims) (string, error) {
	if k.Empty() {
		return "", ErrNoKey
	}
	plain, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encoding a %c: %w", purpose, err)
	}
	head := append([]byte{version, byte(len(k.newest))}, k.newest...)
	sealed := k.sealers[k.newest].Seal(head, nil, plain, additional(purpose, head, host))
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Open opens what was sealed for a purpose and a host, and checks its times. The error is one of
// the above; with ErrExpired come the claims, which then tell where to get others. Only the key that it names is tried, so that a flood of forgeries costs one attempt
// each.
func (k *Keys) Open(purpose Purpose, host, sealed string, now time.Time) (*Claims, error) {
	// encoding/base64 reads over line ends even when it is strict.
	if k == nil || len(sealed) > MaxSealedBytes || strings.ContainsAny(sealed, "\r\n") {
		return nil, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(raw) < 2 || raw[0] != version || len(raw) < 2+int(raw[1]) {
		return nil, ErrInvalid
	}
	head, body := raw[:2+int(raw[1])], raw[2+int(raw[1]):]
	sealer, ok := k.sealers[string(head[2:])]
	if !ok {
		return nil, ErrKey
	}
	plain, err := sealer.Open(nil, nil, body, additional(purpose, head, host))
	if err != nil {
		return nil, ErrInvalid
	}
	claims := &Claims{}
	if err := json.Unmarshal(plain, claims); err != nil {
		return nil, ErrInvalid
	}
	switch {
	case claims.Issued().After(now.Add(Skew)):
		return nil, ErrFuture
	case !now.Before(time.Unix(claims.Expires, 0)):
		return claims, ErrExpired
	}
	return claims, nil
}

// additional is what must be the same when something is opened: without the purpose a link would
// do as a session, without the host one preview's session would open another preview, and without
// the head the key's name could be exchanged. The length of the head ends it.
func additional(purpose Purpose, head []byte, host string) []byte {
	data := append([]byte("sandbar preview "), byte(purpose), byte(len(head)))
	data = append(data, head...)
	return append(data, host...)
}
