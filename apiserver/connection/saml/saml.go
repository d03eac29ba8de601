// Package saml is the service provider of SAML 2.0: metadata, requests, the evaluation of responses, and logout. It is
// pure: values in, values out. The caller detects repetitions of messages, limits failed decryptions, and makes all
// requests. No other package reads or writes XML.
package saml

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

// Bounds of messages and metadata, in bytes.
const (
	// MaxForm bounds the body of a form that has a message.
	MaxForm = 384 << 10
	// MaxMessage bounds a message after base64.
	MaxMessage = 256 << 10
	// MaxMetadata bounds metadata of identity providers.
	MaxMetadata = 1 << 20
	// maxURL bounds URLs, and maxName entity IDs and other identifiers.
	maxURL, maxName = 2048, 1024
)

// The reasons of faults, for metrics and tests.
const (
	// ReasonForm is a message that is not base64 without compression, or that is too large.
	ReasonForm = "form"
	// ReasonXML is XML that is refused before it is read: its form, its bounds, or parts that no message needs.
	ReasonXML = "xml"
	// ReasonStructure is a message with parts that are missing, repeated, or in another place.
	ReasonStructure = "structure"
	ReasonVersion   = "version"
	ReasonStatus    = "status"
	ReasonSignature = "signature"
	// ReasonCertificate is a signature by a key that is not in the metadata.
	ReasonCertificate = "certificate"
	// ReasonEncryption is an assertion without encryption where the connection requires it.
	ReasonEncryption = "encryption"
	// ReasonDecryption is an encrypted assertion that is refused before its signature is verified, whatever the cause.
	ReasonDecryption   = "decryption"
	ReasonIssuer       = "issuer"
	ReasonDestination  = "destination"
	ReasonRecipient    = "recipient"
	ReasonInResponseTo = "in_response_to"
	ReasonAudience     = "audience"
	// ReasonConfirmation is a method of subject confirmation other than bearer.
	ReasonConfirmation = "subject_confirmation"
	ReasonNotBefore    = "not_before"
	ReasonNotOnOrAfter = "not_on_or_after"
	ReasonSessionEnd   = "session_not_on_or_after"
	ReasonIssueInstant = "issue_instant"
	ReasonTime         = "time"
	ReasonSubject      = "subject"
	ReasonSession      = "session_index"
	ReasonAttribute    = "attribute"
	// ReasonEntityID, ReasonEndpoint, ReasonCertificates and ReasonValidUntil are of metadata.
	ReasonEntityID     = "entity_id"
	ReasonEndpoint     = "endpoint"
	ReasonCertificates = "certificates"
	ReasonValidUntil   = "valid_until"
)

// Namespaces.
const (
	nsProtocol   = "urn:oasis:names:tc:SAML:2.0:protocol"
	nsAssertion  = "urn:oasis:names:tc:SAML:2.0:assertion"
	nsMetadata   = "urn:oasis:names:tc:SAML:2.0:metadata"
	nsSignature  = "http://www.w3.org/2000/09/xmldsig#"
	nsEncryption = "http://www.w3.org/2001/04/xmlenc#"
	ns11         = "http://www.w3.org/2009/xmlenc11#"
	nsInstance   = "http://www.w3.org/2001/XMLSchema-instance"
)

// Bindings.
const (
	BindingRedirect = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
	BindingPost     = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
)

// Formats of a NameID.
const (
	FormatPersistent   = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
	FormatTransient    = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
	FormatEmailAddress = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
)

const (
	version       = "2.0"
	statusSuccess = "urn:oasis:names:tc:SAML:2.0:status:Success"
	methodBearer  = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
	// instant is the form of times in messages that are written.
	instant = "2006-01-02T15:04:05Z"
)

// NewID returns an ID of a message: "_" and 40 hexadecimal digits of 160 random bits. It must not repeat (SAML core
// 1.3.4).
func NewID(random io.Reader) (string, error) {
	var raw [20]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("random ID: %w", err)
	}
	return "_" + hex.EncodeToString(raw[:]), nil
}

func fault(reason, got, expected string) *connection.Fault {
	return &connection.Fault{Reason: reason, Got: clip(got), Expected: clip(expected)}
}

// clip bounds a text of a fault to 300 bytes, without characters that a terminal or a page would interpret.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	const most = 300
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// readTime reads an xs:dateTime with a time zone.
func readTime(text string) (time.Time, error) {
	if len(text) > 64 {
		return time.Time{}, fault(ReasonTime, text, "a time such as 2026-01-31T12:00:00Z")
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fault(ReasonTime, text, "a time such as 2026-01-31T12:00:00Z")
	}
	return at.UTC(), nil
}
