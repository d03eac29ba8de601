package messages

import "github.com/cardea-iam/cardea/apiserver/outbound/delivery"

// The mails to the owners of an organization, and to its members who manage its connections, about a domain of theirs.
// The domain is shown as it is: the organization proved it.

// domainMail returns a mail about a domain.
func domainMail(app, organization, domain, subject, what string) delivery.Content {
	app, organization = plainName(app, "the service"), plainName(organization, "an organization")
	return delivery.Content{
		Subject: subject + ": " + domain,
		Body:    what + "\n\nDomain: " + domain + "\nOrganization: “" + organization + "”\nWhere: " + app + "\n",
	}
}

// DomainFailingMail notifies that the record of a verified domain is missing.
func DomainFailingMail(app, organization, domain string) delivery.Content {
	return domainMail(app, organization, domain, "A DNS record is missing",
		"The TXT record that proves your domain was not found. If it is missing for 7 days, the domain is no longer your organization's: "+
			"sign-in by your identity provider is then not offered for its addresses.\n\nTo keep the domain, add the record again. The domains of your organization show it.")
}

// DomainLapsedMail notifies that a domain is no longer verified.
func DomainLapsedMail(app, organization, domain string) delivery.Content {
	return domainMail(app, organization, domain, "A domain is no longer verified",
		"The TXT record that proves your domain was missing for 7 days, so the domain is no longer your organization's. Sign-in by your identity provider is not offered for its addresses. "+
			"Users who signed in by it before still can.\n\nTo have the domain again, add the record again, and verify the domain in your organization.")
}

// DomainLostMail notifies that another organization proved a domain.
func DomainLostMail(app, organization, domain string) delivery.Content {
	return domainMail(app, organization, domain, "A domain belongs to another organization now",
		"Another organization proved that it has your domain, and your organization's TXT record was not there any more. The domain was removed from your organization.\n\n"+
			"If the domain is yours, check who can change its DNS records. Then add the domain to your organization again.")
}

// DomainGainedMail notifies that a domain moved to an organization.
func DomainGainedMail(app, organization, domain string) delivery.Content {
	return domainMail(app, organization, domain, "A domain belongs to your organization now",
		"Your organization proved that it has this domain. Another organization had it before, and was notified.")
}

// DomainDisplacedMail notifies that the operator of the service declared a domain for another purpose.
func DomainDisplacedMail(app, organization, domain string) delivery.Content {
	return domainMail(app, organization, domain, "A domain has no effect any more",
		"The operator of the service set this domain up for another connection. It has no effect for your organization as long as that is so.\n\nIf you do not know why, ask the operator of the service.")
}
