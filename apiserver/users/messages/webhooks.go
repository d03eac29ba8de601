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
	why := "no request to it has succeeded since " + since.UTC().Format("2 January 2006, 15:04 MST")
	if gone {
		why = "its receiver responded that the endpoint is gone for good"
	}
	last := "no response"
	if status != 0 {
		last = "HTTP status " + strconv.FormatInt(status, 10)
	}
	return delivery.Content{
		Subject: "The webhook endpoint “" + endpoint + "” of " + app + " is disabled",
		Body: "The webhook endpoint “" + endpoint + "” of " + app + " gets no events any more: " + why + ".\n\n" +
			"Its events wait within their retention, so nothing is lost if it is enabled in time. Correct the receiver. Then send POST /webhooks/endpoints/" + id + "/reactivate to the backend API, or set spec.active of the WebhookEndpoint to false, and to true again.\n\n" +
			"Endpoint: " + id + "\nLast request: " + last + "\nFailing since: " + since.UTC().Format("2 January 2006, 15:04 MST") + "\n",
	}
}
