// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// browserStore is a place where browsers, or the programs of a system, look for CAs. In its commands
// {name} is the CA's name there, and {file} its file.
type browserStore struct{ of, add, remove string }

// browserStores are those of the systems that have browsers, by GOOS.
var browserStores = map[string][]browserStore{
	"linux": {
		{
			"Chromium and Chrome (certutil is in Debian's package libnss3-tools)",
			"mkdir -p ~/.pki/nssdb && certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n {name} -i {file}",
			"certutil -d sql:$HOME/.pki/nssdb -D -n {name}",
		},
		{
			"Firefox, whose profile's folder about:profiles names",
			`certutil -d sql:"$PROFILE" -A -t C,, -n {name} -i {file}`,
			`certutil -d sql:"$PROFILE" -D -n {name}`,
		},
		{
			"curl, git and other programs, on Debian and Ubuntu",
			"sudo cp {file} /usr/local/share/ca-certificates/{name}.crt && sudo update-ca-certificates",
			"sudo rm /usr/local/share/ca-certificates/{name}.crt && sudo update-ca-certificates --fresh",
		},
	},
	"darwin": {{
		"Safari, Chrome and Firefox",
		"security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db {file}",
		"security remove-trusted-cert {file}",
	}},
	"windows": {{
		"Edge, Chrome and Firefox",
		"certutil -user -addstore Root {file}",
		"certutil -user -delstore Root {name}",
	}},
}

// showBrowserTrust shows how a browser of this machine is made to trust the CAs of the data planes that the
// person trusts. It changes no browser: what a browser trusts, it trusts for every page.
func (s *target) showBrowserTrust(cmd *cobra.Command, goos string) error {
	store, err := s.TrustStore()
	if err != nil {
		return err
	}
	planes, err := store.Load()
	if err != nil {
		return err
	}
	stores := browserStores[goos]
	if stores == nil {
		return fmt.Errorf("sandbar does not know how a browser on %s is made to trust a CA; the bundle is in %s", goos, store.Path)
	}
	shown := 0
	for _, plane := range planes {
		if len(plane.CABundle) == 0 {
			continue // its certificate is publicly trusted
		}
		if err := showPlane(cmd.OutOrStdout(), filepath.Dir(store.Path), plane, stores); err != nil {
			return err
		}
		shown++
	}
	switch {
	case len(planes) == 0:
		return errors.New("you trust no data plane yet: run sandbar trust first")
	case shown == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "The data planes that you trust have certificates that browsers trust already.")
	}
	return nil
}

// showPlane writes the CAs of a data plane into the folder, a file each, and the commands for them.
func showPlane(out io.Writer, dir string, plane client.DataPlane, stores []browserStore) error {
	cas, err := parseCAs(plane.CABundle)
	if err != nil {
		return fmt.Errorf("the CA bundle of %s: %w", plane.URL, err)
	}
	for _, ca := range cas {
		sum := sha256.Sum256(ca.Raw)
		name := "sandbar-" + hex.EncodeToString(sum[:4])
		file := filepath.Join(dir, name+".crt")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
			return fmt.Errorf("writing the CA of %s: %w", plane.URL, err)
		}
		fmt.Fprintf(out, "# %s: CA %s, SHA-256 %X\n# %s\n", termsafe.Line(plane.URL), termsafe.Line(ca.Subject.CommonName), sum, reach(ca))
		commands := strings.NewReplacer("{name}", name, "{file}", cli.Quoted(file))
		for _, store := range stores {
			fmt.Fprintf(out, "\n# %s\n%s\n# and back:\n%s\n", store.of, commands.Replace(store.add), commands.Replace(store.remove))
		}
	}
	return nil
}

// reach says how far a browser that trusts the CA believes the owner of its key.
func reach(ca *x509.Certificate) string {
	if len(ca.PermittedDNSDomains) > 0 {
		return "A browser that trusts it believes it for names below " + termsafe.Line(strings.Join(ca.PermittedDNSDomains, ", ")) + " alone."
	}
	return "The owner of its key can be any site to a browser that trusts it: ask the provider who that is, and use a browser profile of its own."
}

func parseCAs(bundle []byte) ([]*x509.Certificate, error) {
	var cas []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing a certificate: %w", err)
		}
		cas = append(cas, ca)
	}
	return cas, nil
}
