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

// schemesPath is a read that every key with `*` may do: the proof that the store's content is served.
const schemesPath = "/api-auth/rate-limit-schemes"

// sampleServiceAccount is who the samples let in by token, in the deployment's namespace.
const sampleServiceAccount = "backend"

// env is what .dev/env exports.
type env struct {
	kubeconfig   string
	baseURL      string // without path
	deploymentID string
	apiKey       string
	jwt          string // of the sample ServiceAccount, for two days
	binDir       string // put in front of PATH, for kubectl
}

func (r *localRun) environment(ctx context.Context) (env, error) {
	e := env{kubeconfig: r.kubeconfig(), baseURL: "http://" + address(r.ports.Backend), binDir: filepath.Dir(r.cluster.Kubectl())}
	id, err := r.field(ctx, "identitydeployment", r.deployment, "{.status.id}")
	if err != nil {
		return env{}, err
	}
	encoded, err := r.field(ctx, "secret", r.apiKeySecret, "{.data.api-key}")
	if err != nil {
		return env{}, err
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return env{}, fmt.Errorf("api-key of the Secret %s: %w", r.apiKeySecret, err)
	}
	e.deploymentID, e.apiKey = id, string(key)
	e.jwt, err = r.serviceAccountToken(ctx)
	return e, err
}

// serviceAccountToken makes a token of the sample ServiceAccount for the sample deployment.
func (r *localRun) serviceAccountToken(ctx context.Context) (string, error) {
	namespace, name, _ := strings.Cut(r.deployment, "/")
	token, err := r.kubectl(ctx, "create", "token", sampleServiceAccount, "--namespace="+namespace,
		"--audience=cardea:"+namespace+":"+name, "--duration=48h")
	return strings.TrimSpace(string(token)), err
}

// field reads one field that must not be empty of namespace/name.
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

// render is a script for sh.
func (e env) render() string {
	var script strings.Builder
	for _, variable := range []struct{ name, value string }{
		{"KUBECONFIG", e.kubeconfig},
		{"CARDEA_BASE_URL", e.baseURL},
		{"CARDEA_DEPLOYMENT_ID", e.deploymentID},
		{"CARDEA_API_KEY", e.apiKey},
		{"CARDEA_JWT", e.jwt},
	} {
		fmt.Fprintf(&script, "export %s=%s\n", variable.name, quote(variable.value))
	}
	fmt.Fprintf(&script, "export PATH=%s:\"$PATH\"\n", quote(e.binDir))
	return script.String()
}

// quote makes any text one word of sh.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// writeEnv puts the file in place whole: who sees it may source it. It holds a key, so it is the owner's alone.
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

// awaitServed waits until the backend API answers the key. Ready means committed to the store; servers follow within
// a second.
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
			return fmt.Errorf("the API key is not served after %s: %w", within, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func served(ctx context.Context, e env) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.baseURL+schemesPath, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+e.apiKey)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", schemesPath, answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}
