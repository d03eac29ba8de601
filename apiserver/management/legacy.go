package management

import (
	"net/http"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/input"
	"github.com/cardea-iam/cardea/apiserver/openapi"
)

// What stands between operations and the handlers of people, which answer by themselves.

func (a *API) refuse(_ http.ResponseWriter, r *http.Request, err error) { callOf(r).refuse(err) }
func (a *API) answerJSON(_ http.ResponseWriter, r *http.Request, value any) {
	callOf(r).send(object(value))
}
func page(limit, offset *int64) (int, int, error) {
	return int(ptr.Deref(limit, defaultLimit)), int(ptr.Deref(offset, 0)), nil
}
func readName(o *body.Object) *v1alpha1.DisplayName {
	return typed[v1alpha1.DisplayName](input.Name(o, "name"))
}
func readDescription(o *body.Object) *v1alpha1.Description {
	return typed[v1alpha1.Description](input.Description(o, "description"))
}
func readBool(o *body.Object, name string) *bool { return input.Bool(o, name) }

func answeredBy(serve func(c *call)) operation {
	return func(c *call) (reply, error) {
		serve(c)
		return reply{answered: true}, nil
	}
}

func (a *API) legacyOperations() map[string]operation {
	return map[string]operation{
		"GET /users": func(c *call) (reply, error) {
			q := c.query()
			limit, offset := q.page()
			search, _ := q.text("search")
			if err := q.err(); err != nil {
				return reply{}, err
			}
			a.ListUsers(c, c.r, openapi.ListUsersParams{Limit: ptr.To(int64(limit)), Offset: ptr.To(int64(offset)), Search: &search})
			return reply{answered: true}, nil
		},
		"POST /users":                               answeredBy(func(c *call) { a.CreateUser(c, c.r) }),
		"GET /users/{user_id}":                      answeredBy(func(c *call) { a.GetUser(c, c.r, c.r.PathValue("user_id")) }),
		"PATCH /users/{user_id}":                    answeredBy(func(c *call) { a.UpdateUser(c, c.r, c.r.PathValue("user_id")) }),
		"DELETE /users/{user_id}":                   answeredBy(func(c *call) { a.DeleteUser(c, c.r, c.r.PathValue("user_id")) }),
		"POST /users/{user_id}/sessions/revoke-all": answeredBy(func(c *call) { a.RevokeUserSessions(c, c.r, c.r.PathValue("user_id")) }),

		"POST /organizations": answeredBy(func(c *call) { a.CreateOrganization(c, c.r) }),
		"POST /organizations/{organization_id}/members": answeredBy(func(c *call) {
			a.AddOrganizationMember(c, c.r, c.r.PathValue("organization_id"))
		}),
		"DELETE /organizations/{organization_id}/members/{user_id}": answeredBy(func(c *call) {
			a.RemoveOrganizationMember(c, c.r, c.r.PathValue("organization_id"), c.r.PathValue("user_id"))
		}),
	}
}
