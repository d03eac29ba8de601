package backend

import (
	"bytes"
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/store/people"
)

// verifyFor is how long a verification starts further days. One day may take longer.
const verifyFor = 5 * time.Second

// exportAnalytics serves the counts of each day of a period.
func exportAnalytics(c *call) (reply, error) {
	q := c.query()
	period, faults := parseDays(q.Values())
	q.Add(faults...)
	format := q.OneOf("format", "json", "json", "csv")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	summary, err := summarize(c, period, people.Period{}, 0)
	if err != nil {
		return reply{}, err
	}
	days := daysOf(period, summary.Days, ofDay)
	if format == "csv" {
		return reply{parts: [2][]byte{daysCSV(days)}, contentType: "text/csv; charset=utf-8; header=present"}, nil
	}
	view := backendapi.AnalyticsExport{Data: make([]backendapi.AnalyticsExportDay, 0, len(days))}
	for _, d := range days {
		view.Data = append(view.Data, backendapi.AnalyticsExportDay{
			Day: d.Start.Format(time.DateOnly), Signins: d.SignInUsers, Signups: d.SignUps, OrganizationsCreated: d.Organizations, WorkspacesCreated: d.Workspaces,
		})
	}
	return object(view), nil
}

// daysCSV writes days by RFC 4180. No cell contains user input, so that no cell can be a formula.
func daysCSV(days []people.Day) []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	_ = w.Write([]string{"day", "signins", "signups", "organizations_created", "workspaces_created"}) // a buffer never fails
	for _, d := range days {
		row := []string{d.Start.Format(time.DateOnly)}
		for _, n := range []int64{d.SignInUsers, d.SignUps, d.Organizations, d.Workspaces} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return out.Bytes()
}

// verifyAnalytics compares rolled-up days with their events.
func verifyAnalytics(c *call) (reply, error) {
	q := c.query()
	limit := min(q.Integer("limit", 1, defaultLimit), maxLimit)
	from := time.UnixMicro(0).UTC()
	if text, sent := q.Text("from"); sent {
		var err error
		if from, err = time.Parse(time.DateOnly, text); err != nil || from.Year() < 1970 {
			q.Fault("from", "must be a day such as 2026-05-10, in 1970 or later")
		}
	}
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	view := backendapi.AnalyticsVerification{Data: []backendapi.AnalyticsVerifiedDay{}}
	for began := time.Now(); ; { // elapsed time, independent of the API's clock
		if int64(len(view.Data)) == limit || time.Since(began) > verifyFor {
			view.Next = optional(from.Format(time.DateOnly))
			return object(view), nil
		}
		checks, err := verifyDay(c, from)
		if err != nil {
			if len(view.Data) > 0 && apierror.Of(err).Status == http.StatusTooManyRequests {
				view.Next = optional(from.Format(time.DateOnly))
				return object(view), nil
			}
			return reply{}, err
		}
		if len(checks) == 0 {
			return object(view), nil
		}
		check := checks[0]
		view.Data = append(view.Data, backendapi.AnalyticsVerifiedDay{Day: check.Day.Format(time.DateOnly), Events: check.Events, Fault: optional(check.Fault)})
		if from = check.Day.AddDate(0, 0, 1); from.Year() > 9999 {
			return object(view), nil
		}
	}
}

func verifyDay(c *call, from time.Time) (checks []people.RollUpCheck, err error) {
	err = c.analyze(func(ctx context.Context) (err error) {
		checks, err = c.api.People.VerifyRollUps(ctx, c.tenant(), from, 1)
		return err
	})
	return checks, err
}
