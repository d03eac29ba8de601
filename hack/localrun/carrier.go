package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
)

// startCarrier runs the message gateway stand-in in this process, with the account that the samples name, and the
// receiver of webhooks.
func (r *localRun) startCarrier() (err error) {
	r.carrier, err = messagegateway.Start(messagegateway.Options{
		HTTPPort: r.ports.CarrierHTTP, SMTPPort: r.ports.CarrierSMTP, DNSPort: r.ports.CarrierDNS, Handlers: r.webhookReceiver(),
	})
	if err != nil {
		return fmt.Errorf("message gateway stand-in: %w", err)
	}
	r.step("message gateway stand-in started on ports %d (texts, webhooks, inboxes), %d (mails) and %d (DNS)", r.ports.CarrierHTTP, r.ports.CarrierSMTP, r.ports.CarrierDNS)
	return nil
}

// aimAtCarrier patches the sample deployment, if the message gateway stand-in listens on other ports than the sample
// names.
func (r *localRun) aimAtCarrier(ctx context.Context) error {
	patch := carrierPatch(r.ports)
	if patch == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(r.tenant.deployment, "/")
	_, err := r.kubectl(ctx, "patch", "identitydeployment", name, "--namespace="+namespace, "--type=merge", "--patch="+patch)
	return err
}

// carrierPatch returns the patch of aimAtCarrier, or "" if the stand-in has the ports that the samples name.
func carrierPatch(p ports) string {
	if p.CarrierHTTP == preferred.CarrierHTTP && p.CarrierSMTP == preferred.CarrierSMTP {
		return ""
	}
	return fmt.Sprintf(`{"spec":{"email":{"smtp":{"port":%d}},"sms":{"twilio":{"baseURL":"http://%s"}}}}`, p.CarrierSMTP, address(p.CarrierHTTP))
}
