package connection

import (
	"context"
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/configmapvalue"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/controllers/shared/samlkey"
	"github.com/cardea-iam/cardea/internal/translation"
)

const (
	// maxMetadata bounds metadata of a ConfigMap, in bytes.
	maxMetadata = 1 << 20
	// annotationConnection on a Secret names the connection whose keys it holds.
	annotationConnection = "iam.cardea.dev/saml-keys-of"
)

// samlKeysOf is the Secret with the keys of a connection of type SAML.
func samlKeysOf(c *v1alpha1.Connection, id int64) samlkey.Wanted {
	owner := ownedsecret.Owner{Object: c, Kind: v1alpha1.KindConnection, Marker: annotationConnection, Taken: "copy it to a Secret of another name, and delete it when no program uses it"}
	return samlkey.Wanted{Owner: owner, Name: c.Name + v1alpha1.SAMLKeysSuffix, Subject: string(c.Spec.Slug), ID: id, RotateAt: c.Annotations[v1alpha1.AnnotationRotateAt]}
}

// samlObjectNames returns the names of the Secret and of the ConfigMap that a connection of type SAML uses.
func samlObjectNames(c *v1alpha1.Connection) []string {
	names := []string{samlKeysOf(c, 0).Name}
	if ref := c.Spec.SAML.MetadataConfigMapRef; ref != nil {
		names = append(names, ref.Name)
	}
	return names
}

func (opts Options) keeper() samlkey.Keeper {
	return samlkey.Keeper{Secrets: ownedsecret.Manager{Client: opts.Client}, Keyring: opts.Keyring, Clock: opts.Clock, Random: opts.Random}
}

// cleanup deletes the keys of a connection of type SAML.
func (opts Options) cleanup(ctx context.Context, c *v1alpha1.Connection) error {
	if c.Spec.Type != v1alpha1.ConnectionTypeSAML {
		return nil
	}
	return opts.keeper().Remove(ctx, samlKeysOf(c, 0))
}

// samlContent writes what to register at the identity provider into the status, reads the metadata of a ConfigMap, and
// keeps the keys. The keys of an inactive connection stay in their Secret.
func (opts Options) samlContent(ctx context.Context, p engine.Preparation[*v1alpha1.Connection]) (engine.Prepared, error) {
	c := p.Object
	var parts translation.SAMLParts
	if deployment, found := engine.DeploymentIn(p.Refs); found {
		parts.Service = translation.SAMLServiceOf(c, p.ID, opts.Local.Frontends(deployment))
		c.Status.EntityID, c.Status.ACSURLs, c.Status.MetadataURL = parts.Service.EntityID, parts.Service.ACSURLs, parts.Service.MetadataURL
		if len(c.Status.ACSURLs) == 0 { // without a frontend host there is nothing to register
			c.Status.EntityID = ""
		}
	}
	active := ptr.Deref(c.Spec.Active, true)
	var err error
	if parts.Metadata, err = opts.metadata(ctx, c); err != nil && (active || !userMustAct(err)) {
		return engine.Prepared{}, err
	}
	var prepared engine.Prepared
	if active {
		if opts.Keyring.Empty() {
			return prepared, samlkey.NoRootKey()
		}
		opts.Secrets.Ensure(c.Namespace)
		if parts.Keys, prepared.RequeueAfter, err = opts.keeper().Keep(ctx, samlKeysOf(c, p.ID)); err != nil {
			return engine.Prepared{}, err
		}
	}
	prepared.Value = translation.SAMLConnection(c, parts)
	return prepared, nil
}

// userMustAct reports whether an error is about the ConfigMap, which an inactive connection does not need.
func userMustAct(err error) bool {
	var waiting *engine.WaitingError
	var terminal *engine.TerminalError
	return errors.As(err, &waiting) || errors.As(err, &terminal)
}

// metadata returns the metadata of the ConfigMap that a connection names, "" if it names none. Servers read the XML.
func (opts Options) metadata(ctx context.Context, c *v1alpha1.Connection) (string, error) {
	ref := c.Spec.SAML.MetadataConfigMapRef
	if ref == nil {
		return "", nil
	}
	opts.ConfigMaps.Ensure(c.Namespace)
	field := configmapvalue.Field{Path: "spec.saml.metadataConfigMapRef", Ref: *ref}
	text, err := field.Read(ctx, opts.Client, c.Namespace)
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", field.Invalid("is empty")
	case len(text) > maxMetadata:
		return "", field.Invalid("has more than 1 MiB")
	}
	return text, nil
}
