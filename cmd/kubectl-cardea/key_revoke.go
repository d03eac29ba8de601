package main

import (
	"context"
	"fmt"
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
		Short: "Delete an APIKey, so that its key is refused within a second; this cannot be undone",
		Long: "Delete an APIKey, so that its key is refused within a second; this cannot be undone. OAuthClients are refused: deleting one permanently ends\n" +
			"the consents of its users. `key rotate oclient/NAME` gives it a new secret, and spec.active: false disables it temporarily. Directories are\n" +
			"refused too: deleting one ends the synchronization of its organization's members. So are WebhookEndpoints: deleting one ends its deliveries.",
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
		_, err := fmt.Fprintf(around.out, "%s is deleted, and its key is refused. If Git declares it, remove it there too, otherwise a new key is issued.\n", c)
		return err
	})
	flags.addTo(cmd, "do not ask")
	return cmd
}

// checkRevocable refuses an OAuthClient, a Directory and a WebhookEndpoint. The consents of a client's users end with
// the resource, and a new client of the same name does not restore them. The others are more than their secrets.
func (c *credential) checkRevocable() error {
	switch c.info.Kind {
	case v1alpha1.KindAPIKey:
		return nil
	case v1alpha1.KindDirectory:
		return usagef("revoke accepts only APIKeys: deleting Directory %[1]s ends the synchronization of its organization's members. For a new token: "+
			"kubectl cardea key rotate dir/%[1]s -n %[2]s; to refuse every token temporarily, set active: false: "+
			"kubectl patch directory %[1]s -n %[2]s --type=merge -p '{\"spec\":{\"active\":false}}'; to delete it: kubectl delete directory %[1]s -n %[2]s",
			c.obj.GetName(), c.obj.GetNamespace())
	case v1alpha1.KindWebhookEndpoint:
		return usagef("revoke accepts only APIKeys: deleting WebhookEndpoint %[1]s ends its deliveries. For a new secret: kubectl cardea key rotate whe/%[1]s -n %[2]s; "+
			"a second rotation with --yes ends the use of the previous one; to let events wait, set active: false: "+
			"kubectl patch webhookendpoint %[1]s -n %[2]s --type=merge -p '{\"spec\":{\"active\":false}}'; to delete it: kubectl delete webhookendpoint %[1]s -n %[2]s",
			c.obj.GetName(), c.obj.GetNamespace())
	}
	return usagef("revoke accepts only APIKeys: deleting OAuthClient %[1]s permanently ends the consents of its users. For a new secret: "+
		"kubectl cardea key rotate oclient/%[1]s -n %[2]s; to disable the client temporarily, set active: false: "+
		"kubectl patch oauthclient %[1]s -n %[2]s --type=merge -p '{\"spec\":{\"active\":false}}'; to delete it with the consents: kubectl delete oauthclient %[1]s -n %[2]s",
		c.obj.GetName(), c.obj.GetNamespace())
}

// confirm asks the user at a terminal to type the name.
func (c *credential) confirm(around surroundings) error {
	if !isTerminal(around.in) {
		return usagef("%s would be permanently deleted: add --yes to confirm, because there is no terminal for a question", c)
	}
	_, _ = fmt.Fprintf(around.err, "%s in namespace %s is permanently deleted, and its key is refused within a second.\nType its name to continue: ", c, c.obj.GetNamespace())
	if !around.types(c.obj.GetName()) {
		return fmt.Errorf("nothing was deleted: the name was not typed")
	}
	return nil
}

// revoke deletes the resource that was read, not a later one with its name, and waits until the store has deleted it.
func (c *credential) revoke(ctx context.Context, timeout time.Duration) error {
	uid := c.obj.GetUID()
	err := c.client.Delete(ctx, c.obj.(client.Object), client.Preconditions{UID: &uid})
	if err != nil {
		return c.explain(err, "delete", c.String(), c.obj.GetNamespace())
	}
	return c.await(ctx, timeout, "deleted", func(err error) (bool, error) {
		if apierrors.IsNotFound(err) || err == nil && c.obj.GetUID() != uid {
			return true, nil
		}
		return false, err
	})
}
