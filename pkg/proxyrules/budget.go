// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxyrules

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// MaxExpression is how many instructions a compiled regular expression has at most. Counted repetitions multiply:
	// (a{100}){100} has few characters and ten thousand instructions.
	MaxExpression = 2048
	// MaxSteps bounds what the expressions of one request's rules may cost: the bytes compared times the instructions that
	// compare them, added up. It is some 2 ms of one processor, which a request with an ID costs at most.
	MaxSteps = 256 << 10
)

// ErrTooCostly means that comparing a request with the rules of its IDs costs more than MaxSteps.
//
// The attack: a tenant writes expressions whose comparison takes seconds, sends requests with the ID of its own sandbox, and
// the processor that they keep busy is also the one of the baseline's requests.
var ErrTooCostly = fmt.Errorf("comparing the request with the rules of its sandbox costs more than %d steps", MaxSteps)

// errExpressionTooLarge means that a regular expression has more than MaxExpression instructions.
var errExpressionTooLarge = fmt.Errorf("has more than %d instructions", MaxExpression)

// budget is what is left of MaxSteps for a request.
type budget struct{ left int }

// expression is a regular expression (RE2) that is compared with a value as a whole.
type expression struct {
	matcher *regexp.Regexp
	// instructions are the factor of its cost.
	instructions int
}

// compileExpression wraps an expression only after it has been read by itself: an expression such as a)|(?:b would else
// break out of the group that anchors it.
func compileExpression(text string) (*expression, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression (RE2): %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression (RE2): %w", err)
	}
	if len(program.Inst) > MaxExpression {
		return nil, errExpressionTooLarge
	}
	matcher, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, errors.Join(errors.New("is not a regular expression (RE2)"), err)
	}
	return &expression{matcher, len(program.Inst)}, nil
}

// matches compares a value, and takes the cost from the budget.
func (e *expression) matches(value string, b *budget) (bool, error) {
	b.left -= (len(value) + 1) * e.instructions
	if b.left < 0 {
		return false, ErrTooCostly
	}
	return e.matcher.MatchString(value), nil
}
