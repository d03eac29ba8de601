package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

func revokeCommand(to *connection, around surroundings) *cobra.Command {
	var flags changeFlags
	cmd := credentialCommand(to, &cobra.Command{
		Use:   "revoke NAME",
		Short: "Delete an APIKey, by which its key is refused within a second; it cannot be undone",
		Long: "Delete an APIKey, by which its key is refused within a second; it cannot be undone. OAuthClients are not taken: deleting one ends for good\n" +
			"what every user has consented to. `key rotate oclient/NAME` gives it a new secret, spec.active: false refuses it for as long as you want.",
	}, func(ctx context.Context, c *credential) error {
		if err := c.checkRevocable(); err != nil {
			return err
		}
		if !flags.yes {
			if err := c.confirm(around); err != nil {
				return err
			}
		}
		if err := c.revoke(ctx, flags.timeout); err != nil {
			return err
		}
		_, err := fmt.Fprintf(around.out, "%s is deleted, and what it delivered is refused. Where Git declares it, remove it there too, or a new one is issued.\n", c)
		return err
	})
	flags.addTo(cmd, "do not ask")
	return cmd
}

// checkRevocable refuses an OAuthClient: the consents of its users end with the resource, and a new one of its name does not bring them back.
func (c *credential) checkRevocable() error {
	if c.info.Kind == v1alpha1.KindAPIKey {
		return nil
	}
	return usagef("revoke takes APIKeys only: deleting OAuthClient %[1]s ends for good what every user has consented to. For a new secret: "+
		"kubectl cardea key rotate oclient/%[1]s -n %[2]s; to refuse the client for as long as you want, set active: false: "+
		"kubectl patch oauthclient %[1]s -n %[2]s --type=merge -p '{\"spec\":{\"active\":false}}'; if losing the consents is meant: kubectl delete oauthclient %[1]s -n %[2]s",
		c.obj.GetName(), c.obj.GetNamespace())
}

// confirm lets a person at a terminal type the name.
func (c *credential) confirm(around surroundings) error {
	if !isTerminal(around.in) {
		return usagef("%s is deleted for good: add --yes if that is meant, as nobody can be asked here", c)
	}
	_, _ = fmt.Fprintf(around.err, "%s in namespace %s is deleted for good, and its holder is refused within a second.\nType its name to go on: ", c, c.obj.GetNamespace())
	answer, err := bufio.NewReader(around.in).ReadString('\n')
	if err != nil && answer == "" || strings.TrimSpace(answer) != c.obj.GetName() {
		return fmt.Errorf("nothing was deleted: the name was not typed")
	}
	return nil
}

// revoke deletes the resource that was looked at, and no later one of its name, and waits until the store has forgotten it.
func (c *credential) revoke(ctx context.Context, timeout time.Duration) error {
	uid := c.obj.GetUID()
	err := c.client.Delete(ctx, c.obj.(client.Object), client.Preconditions{UID: &uid})
	if err != nil {
		return c.explain(err, "delete", c.String(), c.obj.GetNamespace())
	}
	return c.await(ctx, timeout, "gone", func(err error) (bool, error) {
		if apierrors.IsNotFound(err) || err == nil && c.obj.GetUID() != uid {
			return true, nil
		}
		return false, err
	})
}
