package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// schemesPath is the path of a read that every key with the permission `*` may do. A 200 proves that the store's
// content is served.
const schemesPath = "/api-auth/rate-limit-schemes"

// sessionPath is a path of the end-user API that needs no session. It returns the signed-in user, if any.
const sessionPath = "/session"

// sampleServiceAccount is the ServiceAccount, in the deployment's namespace, whose tokens the samples accept.
const sampleServiceAccount = "backend"

// The samples' authorization server, and its clients: a web application, and a program on the user's machine.
const (
	sampleApp         = "tools"
	sampleWebClient   = "tools-web"
	sampleLocalClient = "tools-terminal"
)

// env has the values that .dev/env exports.
type env struct {
	kubeconfig   string
	baseURL      string // without path
	deploymentID string
	apiKey       string
	jwt          string // a token of the sample ServiceAccount, valid for two days
	// frontendURL is the URL of the end-user API, and inboxURL the URL of the inbox of its messages. Both have no path.
	frontendURL string
	inboxURL    string
	decisionURL string // without path
	// The sample authorization server, with a confidential and a public client.
	issuer, clientID, clientSecret, publicClientID string
	binDir                                         string // put in front of PATH, for kubectl
}

func (r *localRun) environment(ctx context.Context) (env, error) {
	e := env{
		kubeconfig: r.kubeconfig(), baseURL: "http://" + address(r.ports.Backend), binDir: filepath.Dir(r.cluster.Kubectl()),
		frontendURL: fmt.Sprintf("http://localhost:%d", r.ports.Frontend), inboxURL: r.carrier.URL(), decisionURL: "http://" + address(r.ports.Decision),
	}
	var err error
	if e.deploymentID, e.apiKey, err = r.credentials(ctx, r.tenant); err != nil {
		return env{}, err
	}
	if e.jwt, err = r.serviceAccountToken(ctx); err != nil {
		return env{}, err
	}
	return e, r.oauth(ctx, &e)
}

// oauth reads the values that the sample clients need to sign users in: the issuer, their ids, and a secret.
func (r *localRun) oauth(ctx context.Context, e *env) error {
	namespace, _, _ := strings.Cut(r.tenant.deployment, "/")
	for _, of := range []struct {
		to                 *string
		kind, object, path string
	}{
		{&e.issuer, "oauthapp", sampleApp, "{.status.issuer}"}, {&e.clientID, "oauthclient", sampleWebClient, "{.status.clientID}"},
		{&e.clientSecret, "secret", sampleWebClient, "{.data.client-secret}"}, {&e.publicClientID, "oauthclient", sampleLocalClient, "{.status.clientID}"},
	} {
		var err error
		if *of.to, err = r.field(ctx, of.kind, namespace+"/"+of.object, of.path); err != nil {
			return err
		}
	}
	secret, err := base64.StdEncoding.DecodeString(e.clientSecret)
	e.clientSecret = string(secret)
	return err
}

// credentials returns a tenant's id and its API key.
func (r *localRun) credentials(ctx context.Context, of tenant) (id, apiKey string, err error) {
	if id, err = r.field(ctx, "identitydeployment", of.deployment, "{.status.id}"); err != nil {
		return "", "", err
	}
	encoded, err := r.field(ctx, "secret", of.apiKeySecret, "{.data.api-key}")
	if err != nil {
		return "", "", err
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", "", fmt.Errorf("api-key of the Secret %s: %w", of.apiKeySecret, err)
	}
	return id, string(key), nil
}

// serviceAccountToken returns a new token of the sample ServiceAccount for the sample deployment.
func (r *localRun) serviceAccountToken(ctx context.Context) (string, error) {
	namespace, name, _ := strings.Cut(r.tenant.deployment, "/")
	token, err := r.kubectl(ctx, "create", "token", sampleServiceAccount, "--namespace="+namespace,
		"--audience=cardea:"+namespace+":"+name, "--duration=48h")
	return strings.TrimSpace(string(token)), err
}

// field returns a field of an object, named as namespace/name. An empty field is an error.
func (r *localRun) field(ctx context.Context, kind, object, path string) (string, error) {
	namespace, name, _ := strings.Cut(object, "/")
	value, err := r.kubectl(ctx, "get", kind, name, "--namespace="+namespace, "-o", "jsonpath="+path)
	if err != nil {
		return "", err
	}
	if len(value) == 0 {
		return "", fmt.Errorf("%s of the %s %s is empty", path, kind, object)
	}
	return string(value), nil
}

// render returns the script for sh that exports the values.
func (e env) render() string {
	var script strings.Builder
	for _, variable := range []struct{ name, value string }{
		{"KUBECONFIG", e.kubeconfig},
		{"CARDEA_BASE_URL", e.baseURL},
		{"CARDEA_DEPLOYMENT_ID", e.deploymentID},
		{"CARDEA_API_KEY", e.apiKey},
		{"CARDEA_JWT", e.jwt},
		{"CARDEA_FRONTEND_URL", e.frontendURL},
		{"CARDEA_INBOX_URL", e.inboxURL},
		{"CARDEA_DECISION_URL", e.decisionURL + "/deployments/" + e.deploymentID},
		{"CARDEA_ISSUER", e.issuer},
		{"CARDEA_OAUTH_CLIENT_ID", e.clientID},
		{"CARDEA_OAUTH_CLIENT_SECRET", e.clientSecret},
		{"CARDEA_OAUTH_PUBLIC_CLIENT_ID", e.publicClientID},
	} {
		fmt.Fprintf(&script, "export %s=%s\n", variable.name, quote(variable.value))
	}
	fmt.Fprintf(&script, "export PATH=%s:\"$PATH\"\n", quote(e.binDir))
	return script.String()
}

// quote quotes a text as one word of sh.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// writeEnv creates the file atomically, so that a shell never sources a part of it. Only the owner can read the file,
// because it holds a key.
func writeEnv(file, script string) error {
	temporary := file + ".new"
	if err := os.RemoveAll(temporary); err != nil {
		return err
	}
	if err := os.WriteFile(temporary, []byte(script), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// awaitServed waits until the backend API answers the key, and the end-user API answers at localhost. Ready means
// committed to the store; servers follow within a second.
func awaitServed(ctx context.Context, e env) error {
	const within = 30 * time.Second
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := served(bounded, e)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-bounded.Done():
			return fmt.Errorf("not everything is served after %s: %w", within, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func served(ctx context.Context, e env) error {
	return errors.Join(
		answered(ctx, e.baseURL+schemesPath, e.apiKey), answered(ctx, e.frontendURL+sessionPath, ""),
	)
}

// answered returns nil if a GET of a URL returns 200.
func answered(ctx context.Context, url, apiKey string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if apiKey != "" {
		request.Header.Set("Authorization", "Bearer "+apiKey)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}
