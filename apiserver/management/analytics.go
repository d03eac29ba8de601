package management

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/analytics"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// analyticsRoute is the pattern whose parameters ParsePeriod reads.
	analyticsRoute = "GET /analytics"
	// recentEntries is how many sign-ups and sign-ins a summary lists.
	recentEntries = 10
	// analyticsTimeout bounds the count, below the time a client has for reading the answer.
	analyticsTimeout = 20 * time.Second
)

// GetAnalytics serves the summary of a period, operation 4.2.
func (a *API) GetAnalytics(w http.ResponseWriter, r *http.Request, _ openapi.GetAnalyticsParams) {
	period, faults := analytics.ParsePeriod(r.URL.Query())
	if faults != nil {
		a.refuse(w, r, apierror.Invalid(faults...))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), analyticsTimeout)
	defer cancel()
	deployment := callOf(r).principal.Deployment.Deployment
	summary, err := a.Analytics.Summarize(ctx, deployment, period, analytics.Before(period), recentEntries)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		a.refuse(w, r, apierror.Unavailable(err, "the store cannot be asked at the moment: try again"))
	case err != nil:
		a.refuse(w, r, err)
	default:
		a.answerJSON(w, r, analyticsView(period, summary))
	}
}

func analyticsView(period people.Period, s people.Summary) openapi.AnalyticsSummary {
	view := openapi.AnalyticsSummary{
		UniqueSignins: s.Period.SignInUsers, Signups: s.Period.SignUps,
		OrganizationsCreated: s.Period.Organizations, WorkspacesCreated: s.Period.Workspaces, TotalSignups: s.SignUps,
		UniqueSigninsChange:        analytics.Change(s.Period.SignInUsers, s.Before.SignInUsers),
		SignupsChange:              analytics.Change(s.Period.SignUps, s.Before.SignUps),
		OrganizationsCreatedChange: analytics.Change(s.Period.Organizations, s.Before.Organizations),
		WorkspacesCreatedChange:    analytics.Change(s.Period.Workspaces, s.Before.Workspaces),
		DailyMetrics:               []openapi.AnalyticsDay{}, RecentSignups: []openapi.RecentSignUp{}, RecentSignins: []openapi.RecentSignIn{},
	}
	for _, d := range analytics.Days(period, s.Days) {
		view.DailyMetrics = append(view.DailyMetrics, openapi.AnalyticsDay{Day: d.Start.Format(time.DateOnly), Signins: d.SignInUsers, Signups: d.SignUps})
	}
	for _, e := range s.RecentSignUps {
		view.RecentSignups = append(view.RecentSignups, openapi.RecentSignUp{
			UserId: ids.Format(e.User), Email: e.Email, FirstName: e.FirstName, LastName: e.LastName, SignedUpAt: e.At, Method: e.Method,
			Name: fullName(e), Date: e.At,
		})
	}
	for _, e := range s.RecentSignIns {
		view.RecentSignins = append(view.RecentSignins, openapi.RecentSignIn{
			UserId: ids.Format(e.User), UserEmail: e.Email, SignedInAt: e.At, Method: e.Method, IpAddress: e.Address, UserAgent: e.UserAgent,
			Email: e.Email, Name: fullName(e), Date: e.At,
		})
	}
	return view
}

func fullName(e people.Recent) string { return strings.TrimSpace(e.FirstName + " " + e.LastName) }
