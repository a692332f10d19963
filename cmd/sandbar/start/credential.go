// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/openid"
)

// newCredentialCommand is the plugin that kubeconfigs of sandbar login name. People do not call it.
func newCredentialCommand() *cobra.Command {
	var name, issuer, clientID string
	cmd := &cobra.Command{
		Use:    "credential",
		Short:  "Print the token of a login in the browser, for kubectl and other clients",
		Hidden: true,
		Args:   cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := logins()
			if err != nil {
				return err
			}
			again := fmt.Sprintf("log in again: sandbar login URL --oidc-issuer-url %s --oidc-client-id %s", issuer, clientID)
			token, expiry, err := store.Token(cmd.Context(), name)
			var missing *openid.NoLoginError
			switch {
			case errors.As(err, &missing), errors.Is(err, openid.ErrEnded), errors.Is(err, openid.ErrNoIDToken):
				return fmt.Errorf("%w; %s", err, again)
			case err != nil:
				return err
			}
			end := metav1.NewTime(expiry)
			credential := clientauthentication.ExecCredential{
				TypeMeta: metav1.TypeMeta{APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"},
				Status:   &clientauthentication.ExecCredentialStatus{Token: token, ExpirationTimestamp: &end},
			}
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(credential); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "login", "", "name of the login")
	cmd.Flags().StringVar(&issuer, "oidc-issuer-url", "", "URL of the provider, for the message that the login has ended")
	cmd.Flags().StringVar(&clientID, "oidc-client-id", "", "ID of the client, for the same message")
	return cmd
}
