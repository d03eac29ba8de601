package document

import "time"

// KindWebhookEndpoint is the kind of a webhook endpoint, by its name in package v1alpha1.
const KindWebhookEndpoint = "WebhookEndpoint"

// The kinds under which the headers and the secrets of webhook endpoints are sealed.
const (
	SealedEndpointHeader = "webhook-endpoint-header"
	SealedEndpointSecret = "webhook-endpoint-secret"
)

// MaxWebhookConcurrent is the largest WebhookEndpoint.MaxConcurrent.
const MaxWebhookConcurrent = 64

// The values of WebhookEndpoint.Format, Scheme and Ordering.
const (
	WebhookStandard    = "standard_webhooks"
	WebhookCloudEvents = "cloudevents"
	WebhookHMAC        = "hmac"
	WebhookEd25519     = "ed25519"
	WebhookByEntity    = "entity"
	WebhookUnordered   = "none"
)

// WebhookEndpoint is the content of a WebhookEndpoint, with effective values. Secret values are part of it only sealed.
type WebhookEndpoint struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	URL         string `json:"url"`
	// Types are the declared filters of events.
	Types  []string `json:"types"`
	Format string   `json:"format"`
	// Personal adds personal data.
	Personal bool   `json:"personal,omitempty"`
	Scheme   string `json:"scheme"`
	// Secrets sign requests, the current one first. They are bound to the id of the endpoint.
	Secrets []SealedSecret `json:"secrets,omitempty"`
	Headers []ToolHeader   `json:"headers,omitempty"`
	// Ordering is WebhookByEntity or WebhookUnordered.
	Ordering       string `json:"ordering"`
	TimeoutSeconds int64  `json:"timeout_seconds"`
	MaxConcurrent  int64  `json:"max_concurrent"`
	// MaxPerSecond is 0 for no bound.
	MaxPerSecond        int64 `json:"max_per_second,omitempty"`
	RetrySeconds        int64 `json:"retry_seconds"`
	DisableAfterSeconds int64 `json:"disable_after_seconds"`
	Active              bool  `json:"active"`
	// Incomplete reports that a value may not be used: nothing is sent.
	Incomplete bool `json:"incomplete,omitempty"`
}

// SealedSecret is a sealed secret with its end.
type SealedSecret struct {
	Sealed string `json:"sealed"`
	// ExpiresAt is when a previous secret is no longer used; nil for the current one.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}
