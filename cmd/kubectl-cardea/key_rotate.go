package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/cause"
)

func rotateCommand(to *connection, around surroundings) *cobra.Command {
	var flags changeFlags
	cmd := credentialCommand(to, &cobra.Command{
		Use:   "rotate NAME",
		Short: "Let the operator issue a new key, and wait for it; the previous one is accepted for the overlap",
		Long: "Let the operator issue a new key, and wait for it. The previous key is accepted for the overlap. If the overlap of the last rotation has\n" +
			"not ended, the key before the previous one is refused immediately; this needs --yes.",
	}, func(ctx context.Context, c *credential) error {
		if err := c.rotate(ctx, flags.timeout, flags.yes); err != nil {
			return err
		}
		secret, _, _, _ := c.delivered()
		_, err := fmt.Fprintf(around.out, "%s is rotated: the new value is in Secret %s, and %s.\n", c, secret, c.wording().overlap)
		return err
	})
	flags.addTo(cmd, "rotate although the overlap of the last rotation has not ended: the key before it is refused immediately")
	return cmd
}

// rotate annotates the resource and waits until the operator has issued a new key. Without yes, it refuses to end the
// overlap of an earlier rotation.
func (c *credential) rotate(ctx context.Context, timeout time.Duration, yes bool) error {
	secret, _, before, generated := c.delivered()
	switch {
	case secret == "" && !generated:
		return fmt.Errorf("%s has no secret to rotate", c)
	case !generated:
		return fmt.Errorf("the operator did not generate the value of %s: write a new value to your Secret", c)
	case ptr.Deref(c.obj.CommonSpec().Suspend, false):
		return fmt.Errorf("%s is suspended, so the operator does not change it: remove spec.suspend first", c)
	case before == nil:
		return fmt.Errorf("%s was never issued: see kubectl cardea why %s/%s -n %s", c, strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	}
	if !yes {
		if err := c.checkOverlap(ctx, secret, time.Now()); err != nil {
			return err
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.AnnotationRotateAt: rotateAt(before.Time)}}})
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

// checkOverlap refuses a rotation while the previous key is accepted: a Secret has one previous key, so a rotation ends
// the overlap of that key.
func (c *credential) checkOverlap(ctx context.Context, secret string, now time.Time) error {
	found, err := c.Metadata(ctx, cause.KindSecret, c.obj.GetNamespace(), secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil // the operator issues a new key, without a previous one
	case apierrors.IsForbidden(err):
		return &accessError{err: err, message: fmt.Sprintf("you may not get Secret %q in namespace %s, which shows whether the previous key is still accepted: "+
			"ask for ClusterRole edit there, or add --yes if no program uses that key any more", secret, c.obj.GetNamespace())}
	case err != nil:
		return c.explain(err, "get", fmt.Sprintf("Secret %q", secret), c.obj.GetNamespace())
	}
	until, err := time.Parse(time.RFC3339, found.Annotations[v1alpha1.AnnotationPreviousExpiresAt])
	if err != nil || !now.Before(until) {
		return nil
	}
	said := c.wording()
	return usagef("%s was rotated recently, and %s %s: another rotation %s. Wait until then, or add --yes if no program uses it any more",
		c, said.previous, until.UTC().Format(time.RFC3339), said.cut)
}

// rotateAt returns the value of the annotation: the second after the last issue, whose precision is a second. That time
// is later than the issue and, except within that second, in the past by the operator's clock. This machine's clock is
// not used, for two reasons: a wrong clock would delay the rotation, and two concurrent requests to rotate one key must
// have the same value, to rotate it once.
func rotateAt(issued time.Time) string {
	return issued.UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
}

// await reads the resource until done returns true, for at most the timeout. done gets the error of the read. If done
// returns a permanent error, the wait ends. The last other error is part of the error after the timeout.
func (c *credential) await(ctx context.Context, timeout time.Duration, what string, done func(error) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, askAgain, timeout, true, func(ctx context.Context) (bool, error) {
		well, err := done(c.client.Get(ctx, client.ObjectKeyFromObject(c.obj.(client.Object)), c.obj.(client.Object)))
		if err == nil || permanent(err) {
			return well, err
		}
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			last = err // also after the timeout: report the connection's error
		}
		return false, nil
	})
	see := fmt.Sprintf("see kubectl cardea why %s/%s -n %s, and kubectl cardea doctor", strings.ToLower(c.info.Kind), c.obj.GetName(), c.obj.GetNamespace())
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: the change was requested, but the wait for it was interrupted; %s is to be %s: %s", ctx.Err(), c, what, see)
	case wait.Interrupted(err) && last != nil:
		return fmt.Errorf("the change was requested, but %s was not seen to be %s within %s; the last error was: %w: %s", c, what, timeout, c.explain(last, "get", c.String(), c.obj.GetNamespace()), see)
	case wait.Interrupted(err):
		return fmt.Errorf("the change was requested, but %s was not %s within %s: %s", c, what, timeout, see)
	}
	return c.explain(err, "get", c.String(), c.obj.GetNamespace())
}

// permanent reports whether another read would return the same error.
func permanent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}
