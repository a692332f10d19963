// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	idPrefix   = "sbx-"
	idLength   = 8
	idAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	// idReads bounds how many bytes are read for an ID: a source that is broken would otherwise be read for ever. Of 256
	// random bytes, four in 256 are of no use.
	idReads = 256
)

// NewID makes an ID of a sandbox, sbx- and 8 of [a-z0-9], of random bytes. The error is that of the reader, or says that
// its bytes are not random.
func NewID(random io.Reader) (string, error) {
	// The bytes above are of no use: with the remainder of a division, the first letters would be more likely.
	const even = 256 - 256%len(idAlphabet)
	id := []byte(idPrefix)
	var one [1]byte
	for range idReads {
		if len(id) == len(idPrefix)+idLength {
			return string(id), nil
		}
		if _, err := io.ReadFull(random, one[:]); err != nil {
			return "", fmt.Errorf("reading random bytes for the ID of a sandbox: %w", err)
		}
		if int(one[0]) < even {
			id = append(id, idAlphabet[int(one[0])%len(idAlphabet)])
		}
	}
	return "", errors.New("the random bytes for the ID of a sandbox are not random: check the source of randomness")
}

// IsID reports whether a text has the form of an ID of a sandbox, from its first byte to its last.
func IsID(text string) bool {
	random, ok := strings.CutPrefix(text, idPrefix)
	return ok && len(random) == idLength && strings.Trim(random, idAlphabet) == ""
}
