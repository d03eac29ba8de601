package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// fieldManager is who writes, in the API server's books.
const fieldManager = "kubectl-cardea"

// askAgain is how often a resource is looked at that the operator works on.
const askAgain = 250 * time.Millisecond

func keyCommand(to *connection, around surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Rotate, reveal or revoke an API key, or the secret of an OAuth client",
		Long:  "Rotate, reveal or revoke what an APIKey delivers. oclient/NAME means the secret of an OAuthClient instead.",
		RunE:  func(*cobra.Command, []string) error { return usagef("say what to do: rotate, reveal or revoke") },
	}
	cmd.AddCommand(rotateCommand(to, around), revealCommand(to, around), revokeCommand(to, around))
	return cmd
}

// credential is an APIKey or an OAuthClient.
type credential struct {
	*cluster
	info v1alpha1.KindInfo
	obj  v1alpha1.Resource
}

// String names it for people.
func (c *credential) String() string { return c.info.Kind + " " + c.obj.GetName() }

// credential reads NAME, which is an APIKey's, or KIND/NAME.
func (c *cluster) credential(ctx context.Context, argument string) (*credential, error) {
	kind, name, found := strings.Cut(argument, "/")
	if !found {
		kind, name = v1alpha1.KindAPIKey, argument
	}
	info, err := c.kind(kind)
	if err != nil {
		return nil, err
	}
	if info.Kind != v1alpha1.KindAPIKey && info.Kind != v1alpha1.KindOAuthClient || name == "" {
		return nil, usagef("%q names neither an APIKey nor an OAuthClient: write NAME or oclient/NAME", argument)
	}
	obj, err := c.Resource(ctx, info.Kind, c.namespace, name)
	if err != nil {
		return nil, c.explain(err, "get", fmt.Sprintf("%s %q", info.Kind, name), c.namespace)
	}
	return &credential{cluster: c, info: info, obj: obj}, nil
}

// delivered tells the Secret it is delivered in and the key in that, when it was issued, and whether the operator generated it.
func (c *credential) delivered() (secret, key string, issued *metav1.Time, generated bool) {
	switch obj := c.obj.(type) {
	case *v1alpha1.APIKey:
		key = v1alpha1.SecretKeyAPIKey
		if ref := obj.Spec.ExistingSecretRef; ref != nil {
			return ref.Name, ptr.Deref(ref.Key, key), obj.Status.LastRotatedAt, false
		}
		return obj.Status.SecretName, key, obj.Status.LastRotatedAt, true
	case *v1alpha1.OAuthClient:
		key = v1alpha1.SecretKeyClientSecret
		if ref := obj.Spec.ExistingSecretRef; ref != nil {
			return ref.Name, ptr.Deref(ref.Key, key), obj.Status.LastRotatedAt, false
		}
		if template := obj.Spec.SecretTemplate; template != nil {
			if template.Keys != nil {
				key = ptr.Deref(template.Keys.ClientSecret, key)
			}
			return obj.Status.SecretName, key, obj.Status.LastRotatedAt, true
		}
	}
	return "", "", nil, false
}

func rotateCommand(to *connection, around surroundings) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               "rotate NAME",
		Short:             "Let the operator issue a new key, and wait for it; the previous one is accepted for the overlap",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: to.completeOf(v1alpha1.KindAPIKey),
		RunE: func(cmd *cobra.Command, args []string) error {
			opened, err := to.open(cmd.Context())
			if err != nil {
				return err
			}
			key, err := opened.credential(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := key.rotate(cmd.Context(), timeout); err != nil {
				return err
			}
			secret, _, _, _ := key.delivered()
			_, err = fmt.Fprintf(around.out, "%s is rotated: the new one is in Secret %s, the previous one is accepted until the overlap ends.\n", key, secret)
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the operator")
	return cmd
}

// rotate annotates the resource and waits until the operator has issued anew.
func (c *credential) rotate(ctx context.Context, timeout time.Duration) error {
	secret, _, before, generated := c.delivered()
	switch {
	case secret == "" && !generated:
		return fmt.Errorf("%s has no secret, so there is none to rotate", c)
	case !generated:
		return fmt.Errorf("%s has nothing that the operator generated: write a new value to the Secret you brought", c)
	case ptr.Deref(c.obj.CommonSpec().Suspend, false):
		return fmt.Errorf("%s is suspended, so the operator leaves it alone: remove spec.suspend first", c)
	case before == nil:
		return fmt.Errorf("%s was never issued: see kubectl cardea why %s/%s -n %s", c, strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	}
	at := rotateAt(time.Now(), before.Time)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.AnnotationRotateAt: at}}})
	if err != nil {
		return err
	}
	err = c.client.Patch(ctx, c.obj.(client.Object), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager))
	if err != nil {
		return c.explain(err, "patch", c.String(), c.obj.GetNamespace())
	}
	return c.await(ctx, timeout, "rotated", func(err error) (bool, error) {
		_, _, issued, _ := c.delivered()
		return err == nil && issued != nil && issued.After(before.Time), err
	})
}

// rotateAt is what the annotation says: now, but later than the last issue, which is known to the second.
func rotateAt(now, issued time.Time) string {
	at := now.UTC().Truncate(time.Second)
	if !at.After(issued) {
		at = issued.UTC().Truncate(time.Second).Add(time.Second)
	}
	return at.Format(time.RFC3339)
}

// await reads the resource until done says so. done gets the error of reading.
func (c *credential) await(ctx context.Context, timeout time.Duration, what string, done func(error) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, askAgain, timeout, true, func(ctx context.Context) (bool, error) {
		return done(c.client.Get(ctx, client.ObjectKeyFromObject(c.obj.(client.Object)), c.obj.(client.Object)))
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s was not %s within %s, though it was asked for: see kubectl cardea why %s/%s -n %s, and kubectl cardea doctor",
			c, what, timeout, strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	}
	return c.explain(err, "get", c.String(), c.obj.GetNamespace())
}

func revealCommand(to *connection, around surroundings) *cobra.Command {
	return &cobra.Command{
		Use:               "reveal NAME",
		Short:             "Print the key from its Secret, in the clear",
		Long:              "Print the key from its Secret, in the clear: on a screen others see it, and logs keep it. A line on the standard error says whose it is.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: to.completeOf(v1alpha1.KindAPIKey),
		RunE: func(cmd *cobra.Command, args []string) error {
			opened, err := to.open(cmd.Context())
			if err != nil {
				return err
			}
			key, err := opened.credential(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			value, secret, err := key.read(cmd.Context())
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(around.err, "This is what Secret %s holds for %s. Whoever has it acts as its holder: keep it from screens and logs.\n", secret, key)
			_, err = fmt.Fprintln(around.out, value)
			return err
		},
	}
}

// read returns what a Secret holds. No error repeats it.
func (c *credential) read(ctx context.Context) (value, secret string, err error) {
	secret, key, _, _ := c.delivered()
	if secret == "" {
		return "", "", fmt.Errorf("%s has no Secret: see kubectl cardea why %s/%s -n %s", c, strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	}
	var found corev1.Secret
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.obj.GetNamespace(), Name: secret}, &found); err != nil {
		return "", "", c.explain(err, "get", fmt.Sprintf("Secret %q", secret), c.obj.GetNamespace())
	}
	value = strings.TrimSpace(string(found.Data[key]))
	if value == "" || terminal.Clean(value) != value {
		return "", "", fmt.Errorf("secret %s has no key of one line as %s: see kubectl cardea why %s/%s -n %s", secret, key,
			strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	}
	return value, secret, nil
}

func revokeCommand(to *connection, around surroundings) *cobra.Command {
	var yes bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               "revoke NAME",
		Short:             "Delete the resource, by which its key is refused within a second; it cannot be undone",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: to.completeOf(v1alpha1.KindAPIKey),
		RunE: func(cmd *cobra.Command, args []string) error {
			opened, err := to.open(cmd.Context())
			if err != nil {
				return err
			}
			key, err := opened.credential(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !yes {
				if err := key.confirm(around); err != nil {
					return err
				}
			}
			if err := key.revoke(cmd.Context(), timeout); err != nil {
				return err
			}
			_, err = fmt.Fprintf(around.out, "%s is deleted, and what it delivered is refused. Where Git declares it, remove it there too, or a new one is issued.\n", key)
			return err
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the operator")
	return cmd
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
