package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// fieldManager is the field manager of this plugin's writes.
const fieldManager = "kubectl-cardea"

// askAgain is the interval of polls while the operator works on a resource.
const askAgain = 250 * time.Millisecond

func keyCommand(to *connection, around surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Rotate, reveal or revoke an API key; rotate or reveal the secret of an OAuth client or a webhook endpoint, or the token of a directory",
		Long: "Rotate, reveal or revoke the key of an APIKey. For rotate and reveal, oclient/NAME selects the secret of an OAuthClient instead, dir/NAME the token\n" +
			"of a Directory, and whe/NAME the signing secret of a WebhookEndpoint. These cannot be revoked here, because that would end more than a credential.",
		RunE: func(*cobra.Command, []string) error {
			return usagef("a subcommand is required: rotate, reveal or revoke")
		},
	}
	cmd.AddCommand(rotateCommand(to, around), revealCommand(to, around), revokeCommand(to, around))
	return cmd
}

// credentialCommand returns a command that acts on the credential that its argument names.
func credentialCommand(to *connection, cmd *cobra.Command, act func(context.Context, *credential) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), to.completeOf(v1alpha1.KindAPIKey)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opened, err := to.open(cmd.Context())
		if err != nil {
			return err
		}
		named, err := opened.credential(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return act(cmd.Context(), named)
	}
	return cmd
}

// changeFlags are the flags of a command that changes a credential.
type changeFlags struct {
	yes     bool
	timeout time.Duration
}

// addTo adds the flags to a command. yes is the help text of --yes.
func (f *changeFlags) addTo(cmd *cobra.Command, yes string) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, yes)
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for the operator")
}

// credential is an APIKey, an OAuthClient, a Directory or a WebhookEndpoint.
type credential struct {
	*cluster
	info v1alpha1.KindInfo
	obj  v1alpha1.Resource
}

// String returns its name for the output.
func (c *credential) String() string { return c.info.Kind + " " + c.obj.GetName() }

// credentialName parses KIND/NAME, or NAME, which is the name of an APIKey.
func (c *cluster) credentialName(argument string) (info v1alpha1.KindInfo, name string, err error) {
	kind, name, found := strings.Cut(argument, "/")
	if !found {
		kind, name = v1alpha1.KindAPIKey, argument
	}
	if info, err = c.kind(kind); err != nil {
		return info, "", err
	}
	if !slices.Contains([]string{v1alpha1.KindAPIKey, v1alpha1.KindOAuthClient, v1alpha1.KindDirectory, v1alpha1.KindWebhookEndpoint}, info.Kind) || name == "" {
		return info, "", usagef("%q is no APIKey, OAuthClient, Directory or WebhookEndpoint: write NAME, oclient/NAME, dir/NAME or whe/NAME", argument)
	}
	return info, name, nil
}

// credential reads the resource that an argument names.
func (c *cluster) credential(ctx context.Context, argument string) (*credential, error) {
	info, name, err := c.credentialName(argument)
	if err != nil {
		return nil, err
	}
	obj, err := c.Resource(ctx, info.Kind, c.namespace, name)
	if err != nil {
		return nil, c.explain(err, "get", fmt.Sprintf("%s %q", info.Kind, name), c.namespace)
	}
	return &credential{cluster: c, info: info, obj: obj}, nil
}

// delivered returns the name of the Secret with the credential, the key of the Secret's data, the credential's time of
// issue, and whether the operator generated the credential.
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
	case *v1alpha1.Directory:
		key = v1alpha1.SecretKeySCIMToken
		if ref := obj.Spec.ExistingSecretRef; ref != nil {
			return ref.Name, ptr.Deref(ref.Key, key), obj.Status.LastRotatedAt, false
		}
		return obj.Status.SecretName, key, obj.Status.LastRotatedAt, true
	case *v1alpha1.WebhookEndpoint:
		key = v1alpha1.SecretKeySigningSecret
		if signing := obj.Spec.Signing; signing != nil {
			if ref := signing.ExistingSecretRef; ref != nil {
				return ref.Name, ptr.Deref(ref.Key, key), obj.Status.LastRotatedAt, false
			}
			if ptr.Deref(signing.Scheme, v1alpha1.WebhookSchemeHMAC) == v1alpha1.WebhookSchemeEd25519 {
				return "", "", nil, false // the deployment's key signs
			}
		}
		return obj.Status.SecretName, key, obj.Status.LastRotatedAt, true
	}
	return "", "", nil, false
}

// wording says what a credential is for.
type wording struct {
	// holder is what a program with the value can do, and overlap what follows a rotation.
	holder, overlap string
	// previous is the state of the previous value in the overlap, and cut what another rotation does to it.
	previous, cut string
}

func (c *credential) wording() wording {
	if c.info.Kind == v1alpha1.KindWebhookEndpoint {
		return wording{
			"can sign requests to its receiver", "requests are also signed with the previous one until the overlap ends",
			"requests are also signed with the previous secret until", "ends that immediately",
		}
	}
	return wording{"can act as its owner", "the previous one is accepted until the overlap ends", "the previous key is accepted until", "refuses it immediately"}
}

func revealCommand(to *connection, around surroundings) *cobra.Command {
	return credentialCommand(to, &cobra.Command{
		Use:   "reveal NAME",
		Short: "Print the key from its Secret, in the clear",
		Long:  "Print the key from its Secret, in the clear: other users may see it on your screen, and logs may store it. A line on standard error names its resource.",
	}, func(ctx context.Context, c *credential) error {
		value, secret, err := c.read(ctx)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(around.err, "This is the value of Secret %s for %s. Every program with this value %s: keep it out of screens and logs.\n", secret, c, c.wording().holder)
		_, err = fmt.Fprintln(around.out, value)
		return err
	})
}

// read returns the credential and the name of its Secret. No error repeats the credential.
func (c *credential) read(ctx context.Context) (value, secret string, err error) {
	secret, key, _, generated := c.delivered()
	if secret == "" && !generated && c.info.Kind == v1alpha1.KindWebhookEndpoint {
		return "", "", fmt.Errorf("%s has no secret: the key of its IdentityDeployment signs, whose public part is in status.webhookPublicKeys", c)
	}
	if secret == "" {
		return "", "", fmt.Errorf("%s has no Secret: see kubectl cardea why %s/%s -n %s", c, strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	}
	var found corev1.Secret
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.obj.GetNamespace(), Name: secret}, &found); err != nil {
		return "", "", c.explain(err, "get", fmt.Sprintf("Secret %q", secret), c.obj.GetNamespace())
	}
	value = strings.TrimSpace(string(found.Data[key]))
	if value == "" || terminal.Clean(value) != value {
		return "", "", fmt.Errorf("the Secret %s has no one-line value under key %s: see kubectl cardea why %s/%s -n %s", secret, key,
			strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	}
	return value, secret, nil
}
