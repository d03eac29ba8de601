package messages

import (
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
)

// EndpointDisabledMail notifies the support of a deployment that a webhook endpoint was disabled. id is its id, and
// since the time of the first of its failures. status is the HTTP status of the last response, 0 for none. gone reports
// that the receiver responded with 410.
func EndpointDisabledMail(app, endpoint, id string, since time.Time, status int64, gone bool) delivery.Content {
	app, endpoint = plainName(app, "the service"), plainName(endpoint, "a webhook endpoint")
	why := "no request to it has succeeded since " + minute(since)
	if gone {
		why = "its receiver responded that the endpoint is gone for good"
	}
	return delivery.Content{
		Subject: "The webhook endpoint “" + endpoint + "” of " + app + " is disabled",
		Body: "The webhook endpoint “" + endpoint + "” of " + app + " gets no events any more: " + why + ".\n\n" +
			"Its events wait within their retention, so nothing is lost if it is enabled in time. Correct the receiver. Then send POST /webhooks/endpoints/" + id + "/reactivate to the backend API, or set spec.active of the WebhookEndpoint to false, and to true again.\n\n" +
			endpointState(id, since, status),
	}
}

// EndpointFailingMail notifies the support of a deployment that a webhook endpoint fails, and will be disabled at a
// time. The other arguments are those of EndpointDisabledMail.
func EndpointFailingMail(app, endpoint, id string, since, ends time.Time, status int64) delivery.Content {
	app, endpoint = plainName(app, "the service"), plainName(endpoint, "a webhook endpoint")
	return delivery.Content{
		Subject: "The webhook endpoint “" + endpoint + "” of " + app + " is failing",
		Body: "No request to the webhook endpoint “" + endpoint + "” of " + app + " has succeeded since " + minute(since) + ". It will be disabled at " + minute(ends) +
			" if none succeeds before.\n\n" +
			"Its events wait within their retention, and are sent when its receiver accepts one. Correct the receiver, or the url of the WebhookEndpoint.\n\n" +
			endpointState(id, since, status),
	}
}

// endpointState describes the last request to an endpoint that fails since a time. status is 0 without a response.
func endpointState(id string, since time.Time, status int64) string {
	last := "no response"
	if status != 0 {
		last = "HTTP status " + strconv.FormatInt(status, 10)
	}
	return "Endpoint: " + id + "\nLast request: " + last + "\nFailing since: " + minute(since) + "\n"
}

// minute writes a time to the minute.
func minute(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 MST") }
