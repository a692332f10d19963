// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance has the values of the header baggage by which each provider of SandboxRoutes is tested: which of them
// lead a request to the sandbox with an ID, and which do not.
//
// In: the ID, and that of another sandbox. Out: requests by their baggage headers, with the answer.
package conformance

import (
	"fmt"
	"strings"
)

// Baggage is a request by its baggage headers.
type Baggage struct {
	// Name says what is special, as a part of a sentence.
	Name string
	// Lines are the values of the headers, one for each line of the request.
	Lines []string
	// Routed: the request goes to the sandbox.
	Routed bool
}

// mostMembers is how many members baggage has at most (W3C Baggage).
const mostMembers = 64

// BaggageOf returns the requests for the sandbox with an ID. other is the ID of another sandbox, as long as the first.
func BaggageOf(id, other string) []Baggage {
	routed := func(name string, lines ...string) Baggage { return Baggage{name, lines, true} }
	elsewhere := func(name string, lines ...string) Baggage { return Baggage{name, lines, false} }
	var many []string
	for i := range mostMembers - 1 {
		many = append(many, fmt.Sprintf("key%d=value%d", i, i))
	}
	full := strings.Join(many, ",")
	return []Baggage{
		elsewhere("none"),
		elsewhere("empty", ""),
		routed("the ID alone", "sandbox="+id),
		elsewhere("another sandbox", "sandbox="+other),
		elsewhere("an empty ID", "sandbox="),
		elsewhere("the key alone", "sandbox"),
		elsewhere("the ID alone, without its key", id),
		elsewhere("the ID of another key", "user="+id),

		elsewhere("the ID at the start of a longer one", "sandbox="+id+"5"),
		elsewhere("the ID at the end of a longer one", "sandbox=x"+id),
		elsewhere("a part of the ID", "sandbox="+id[:len(id)-1]),
		elsewhere("a longer value with a hyphen", "sandbox="+id+"-blue"),
		elsewhere("a longer key that ends so", "mysandbox="+id),
		elsewhere("a longer key that begins so", "sandboxes="+id),
		elsewhere("the key in capitals", "Sandbox="+id),
		elsewhere("the ID in capitals", "sandbox="+strings.ToUpper(id)),
		elsewhere("an ID in quotation marks", `sandbox="`+id+`"`),
		elsewhere("the entry in the value of another", "note=sandbox="+id),

		routed("properties behind", "sandbox="+id+";ttl=60;sampled"),
		routed("properties behind, with spaces", "sandbox="+id+" ; ttl = 60"),
		elsewhere("the entry as a property of another", "user=alice;sandbox="+id),
		routed("the entry also as a property of another", "user=alice;sandbox="+other+",sandbox="+id),
		elsewhere("the other sandbox, and the ID as its property", "sandbox="+other+";sandbox="+id),

		elsewhere("a key with percent-encoding", "%73andbox="+id),
		elsewhere("an ID with percent-encoding", "sandbox="+strings.Replace(id, "-", "%2D", 1)),
		elsewhere("a comma with percent-encoding", "user=alice%2Csandbox="+id),
		routed("others with percent-encoding", "user=Am%C3%A9lie%2C%20x,sandbox="+id),

		routed("the first of several", "sandbox="+id+",user=alice,tier=gold"),
		routed("one in the middle", "user=alice,sandbox="+id+",tier=gold"),
		routed("the last of several", "user=alice,tier=gold,sandbox="+id),
		routed("behind another sandbox", "sandbox="+other+",sandbox="+id),
		routed("behind members that are empty", ",,sandbox="+id+","),
		routed("the last of 64", full+",sandbox="+id),
		routed("the first of 64", "sandbox="+id+","+full),
		elsewhere("64 without", full+",sandbox="+other),

		routed("spaces around", "user=alice , sandbox = "+id+" , tier=gold"),
		routed("tabs around", "user=alice\t,\tsandbox\t=\t"+id+"\t,\ttier=gold"),
		elsewhere("a space within", "sandbox="+id[:4]+" "+id[4:]),
		elsewhere("other words behind a space", "sandbox="+id+" x"),

		routed("a line of its own behind others", "user=alice", "sandbox="+id),
		routed("a line of its own before others", "sandbox="+id, "user=alice"),
		elsewhere("two lines without", "user=alice", "sandbox="+other),
		elsewhere("key and ID in two lines", "sandbox=", id),
	}
}
