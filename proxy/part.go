// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import "sync"

// part is what a part of an answer is read into. It is little until much has come at once, so that an answer of events that is
// waited for, of which a proxy has thousands, holds little.
type part struct {
	bytes []byte
	lent  any
}

const (
	littlePart = 2 << 10
	largePart  = 32 << 10
)

var (
	littleParts = sync.Pool{New: func() any { return new([littlePart]byte) }}
	largeParts  = sync.Pool{New: func() any { return new([largePart]byte) }}
)

// lend takes a part from those that are free.
func (p *part) lend(large bool) {
	if large {
		lent, _ := largeParts.Get().(*[largePart]byte)
		p.bytes, p.lent = lent[:], lent
		return
	}
	lent, _ := littleParts.Get().(*[littlePart]byte)
	p.bytes, p.lent = lent[:], lent
}

// next changes the size for what comes behind a part of n bytes.
func (p *part) next(n int) {
	if large := len(p.bytes) == largePart; large && n < littlePart || !large && n == littlePart {
		p.giveBack()
		p.lend(!large)
	}
}

func (p *part) giveBack() {
	if len(p.bytes) == largePart {
		largeParts.Put(p.lent)
	} else {
		littleParts.Put(p.lent)
	}
}
