package backend

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/queries"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// recentEntries is how many sign-ups and sign-ins a summary lists.
	recentEntries = 10
	// analyticsTimeout bounds a query with its wait for the turn of its deployment. It is shorter than the write timeout
	// of the listener, so that the client still gets a response.
	analyticsTimeout = 20 * time.Second
)

// getAnalytics serves the summary of a period.
func getAnalytics(c *call) (reply, error) {
	period, faults := parsePeriod(c.r.URL.Query())
	if faults != nil {
		return reply{}, apierror.Invalid(faults...)
	}
	summary, err := summarize(c, period, periodBefore(period), recentEntries)
	if err != nil {
		return reply{}, err
	}
	return object(analyticsView(period, summary)), nil
}

func summarize(c *call, period, before people.Period, recent int) (people.Summary, error) {
	var summary people.Summary
	err := c.analyze(func(ctx context.Context) (err error) {
		summary, err = c.api.People.Summarize(ctx, c.tenant(), period, before, recent)
		return err
	})
	return summary, err
}

// analyze runs a query of analytics within the time of its deployment. Its error is one for the client.
func (c *call) analyze(query func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), analyticsTimeout)
	defer cancel()
	begun := false
	err := c.api.Queries.Run(ctx, c.tenant(), func() error { begun = true; return query(ctx) })
	if busy, ok := errors.AsType[*queries.Busy](err); ok {
		return apierror.Later("", busy.Wait, "the analytics queries of this deployment used up their time: send fewer, one after another, after the seconds of Retry-After")
	}
	if err != nil && !begun {
		return apierror.Unavailable(err, "the server is busy with analytics queries of other deployments: try again")
	}
	return storeUnavailable(err)
}

func storeUnavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return apierror.Unavailable(err, "the store is unavailable: try again")
	}
	return err
}

func analyticsView(period people.Period, s people.Summary) backendapi.AnalyticsSummary {
	view := backendapi.AnalyticsSummary{
		UniqueSignins: s.Period.SignInUsers, Signups: s.Period.SignUps,
		OrganizationsCreated: s.Period.Organizations, WorkspacesCreated: s.Period.Workspaces, TotalSignups: s.SignUps,
		UniqueSigninsChange:        percentChange(s.Period.SignInUsers, s.Before.SignInUsers),
		SignupsChange:              percentChange(s.Period.SignUps, s.Before.SignUps),
		OrganizationsCreatedChange: percentChange(s.Period.Organizations, s.Before.Organizations),
		WorkspacesCreatedChange:    percentChange(s.Period.Workspaces, s.Before.Workspaces),
		DailyMetrics:               []backendapi.AnalyticsDay{}, RecentSignups: []backendapi.RecentSignUp{}, RecentSignins: []backendapi.RecentSignIn{},
	}
	for _, d := range daysOf(period, s.Days, ofDay) {
		view.DailyMetrics = append(view.DailyMetrics, backendapi.AnalyticsDay{Day: d.Start.Format(time.DateOnly), Signins: d.SignInUsers, Signups: d.SignUps})
	}
	for _, e := range s.RecentSignUps {
		view.RecentSignups = append(view.RecentSignups, backendapi.RecentSignUp{
			UserId: ids.Format(e.User), Email: e.Email, FirstName: e.FirstName, LastName: e.LastName, SignedUpAt: e.At, Method: e.Method,
			Name: fullName(e), Date: e.At,
		})
	}
	for _, e := range s.RecentSignIns {
		view.RecentSignins = append(view.RecentSignins, backendapi.RecentSignIn{
			UserId: ids.Format(e.User), UserEmail: e.Email, SignedInAt: e.At, Method: e.Method, IpAddress: e.Address, UserAgent: e.UserAgent,
			Email: e.Email, Name: fullName(e), Date: e.At,
		})
	}
	return view
}

func fullName(e people.Recent) string { return strings.TrimSpace(e.FirstName + " " + e.LastName) }
