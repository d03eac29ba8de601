package backend

import (
	"encoding/json"
	"net/http"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
)

// listTemplates serves a page of the deployment's templates of tokens.
func listTemplates(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	l := listing{limit: limit, offset: offset}
	l.begin(`{"data":[`)
	var failed error
	c.snapshot.List(v1alpha1.KindJWTTemplate, c.tenant(), func(e *snapshot.Entry) bool {
		return l.add(func(to []byte) []byte {
			one, err := json.Marshal(viewTemplate(c, e))
			if err != nil {
				failed = err
			}
			return append(to, one...)
		})
	})
	return l.endByOffset(c.snapshot.Count(v1alpha1.KindJWTTemplate, c.tenant())), failed
}

// getTemplate serves a template by its id.
func getTemplate(c *call) (reply, error) {
	id, err := ids.Parse(c.r.PathValue("template_id"))
	if err != nil {
		return reply{}, apierror.Invalid(apierror.Fault{Pointer: ":template_id", Message: "must be a decimal integer from 1 to 9223372036854775807"})
	}
	template, found := c.snapshot.ByID(v1alpha1.KindJWTTemplate, c.tenant(), id)
	if !found {
		return reply{}, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
			Pointer: ":template_id", Message: "is the id of no JWTTemplate of the deployment: list them to see which there are"}}}
	}
	one, err := json.Marshal(viewTemplate(c, template))
	return raw(one), err
}

func viewTemplate(c *call, e *snapshot.Entry) backendapi.JWTTemplate {
	content := snapshot.ContentOf[snapshot.JWTTemplate](e)
	claims := map[string]any{}
	for _, claim := range content.Claims {
		claims[claim.Name] = claim.Value
		if claim.Expression != "" {
			claims[claim.Name] = map[string]string{"expression": claim.Expression}
		}
	}
	return backendapi.JWTTemplate{
		Id: ids.Format(e.ID), Name: content.Name, TokenLifetime: content.LifetimeSeconds, Template: claims, DeploymentId: ids.Format(c.principal.Deployment.ID),
		CreatedAt: e.Meta.CreatedAt, UpdatedAt: e.Meta.UpdatedAt,
	}
}
