package messages

import (
	"strings"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
)

// NewCertificatesMail notifies the admins of an organization that the metadata of its identity provider name new
// certificates for signatures. fingerprints are SHA-256 hashes in hexadecimal, at most a few.
func NewCertificatesMail(app, organization, connection string, fingerprints []string) delivery.Content {
	app, organization, connection = plainName(app, "the service"), plainName(organization, "an organization"), plainName(connection, "a connection")
	return delivery.Content{
		Subject: "Your identity provider has a new certificate",
		Body: "The metadata of the identity provider by which your organization signs in name a new certificate for signatures. Sign-ins that it signs are accepted from now on.\n\n" +
			"If your provider did not announce it, check the metadata at once: a party with the key of that certificate can sign in as your users. Until you know, deactivate the connection.\n\n" +
			"Connection: “" + connection + "”\nSHA-256 of the certificate: " + strings.Join(fingerprints, ", ") + "\nOrganization: “" + organization + "”\nWhere: " + app + "\n",
	}
}
