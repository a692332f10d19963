// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// listenVariable has the test's program listen at its value, in the place of any test.
const listenVariable = "SANDBAR_TEST_LISTEN"

func init() {
	if address := os.Getenv(listenVariable); address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Addr())
		select {}
	}
}

func TestWhereTheAppListens(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0") // the runner's own
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s, said := realApp(t, `for a in 127.0.0.1:0 '[::1]:0' 0.0.0.0:0; do `+listenVariable+`=$a '`+os.Args[0]+`' & done; wait`, 0)
	want := said.await(t, 3)
	got, err := s.Listening()
	if err != nil || len(got) != 3 || !slices.IsSortedFunc(got, func(a, b netip.AddrPort) int { return int(a.Port()) - int(b.Port()) }) {
		t.Fatalf("it listens at %v, %v; want %v", got, err, want)
	}
	for _, address := range got {
		if !slices.Contains(want, address.String()) {
			t.Errorf("%s is none of %v", address, want)
		}
	}
}

func TestTheKernelsTableOfSockets(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1435 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1435 0100007F:8001 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0
`
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the table is of a machine with the other order of bytes")
	}
	got, err := parseListening(strings.NewReader(table))
	if err != nil || len(got) != 2 || got["4711"] != netip.MustParseAddrPort("127.0.0.1:5173") || got["4713"] != netip.MustParseAddrPort("[::1]:3000") {
		t.Errorf("the table says %v, %v", got, err)
	}
	for _, address := range []string{"", ":", "0100007F", "0100007F:", "0100007F:10000", "01007F:1435", "zz00007F:1435", "0100007F0100007F:1435"} {
		if got, err := parseSocketAddress(address); err == nil {
			t.Errorf("%q is read as %v", address, got)
		}
	}
}
