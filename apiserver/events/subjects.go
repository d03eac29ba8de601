package events

// SubjectWebhookEndpoint is the subject type of events about webhook endpoints.
const SubjectWebhookEndpoint = "webhook_endpoint"
