package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	readyWithin = 120 * time.Second
	readyPause  = 500 * time.Millisecond
)

// object has the fields of a resource that its readiness depends on.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
		Generation int64  `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64       `json:"observedGeneration"`
		Conditions         []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// key returns kind, API group, namespace and name of an object. The API version is not part of its identity.
func (o object) key() string {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return fmt.Sprintf("%s.%s %s/%s", strings.ToLower(o.Kind), group, o.Metadata.Namespace, o.Metadata.Name)
}

// ready reports whether the object has Ready=True for its current generation, and not for one before the last edit.
func (o object) ready() bool {
	if o.Status.ObservedGeneration != o.Metadata.Generation {
		return false
	}
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// describe returns an object's state in lines.
func (o object) describe() string {
	text := fmt.Sprintf("  %s (generation %d, observed %d)\n", o.key(), o.Metadata.Generation, o.Status.ObservedGeneration)
	for _, c := range o.Status.Conditions {
		text += fmt.Sprintf("    %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// applySamples applies the samples, and the endpoint of the local receiver, and waits until each of them is Ready.
// Objects that are not samples are the user's own, kept from earlier runs. applySamples does not wait for these, and
// returns those that are not Ready.
func (r *localRun) applySamples(ctx context.Context) (others []object, err error) {
	if _, err := r.kubectl(ctx, "apply", "-k", r.samples); err != nil {
		return nil, err
	}
	if err := r.aimAtCarrier(ctx); err != nil {
		return nil, err
	}
	applied, err := r.list(ctx, "-k", r.samples)
	if err != nil {
		return nil, err
	}
	endpoint, err := r.applyEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	samples := map[string]bool{endpoint: true}
	for _, o := range applied {
		samples[o.key()] = true
	}
	begin := time.Now()
	for {
		all, err := r.list(ctx, "cardea", "--all-namespaces")
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s holds no resource of category cardea", r.samples)
		}
		unready, others := split(all, samples)
		if len(unready) == 0 {
			r.step("%d resources ready in %s", len(all)-len(others), time.Since(begin).Round(100*time.Millisecond))
			return others, nil
		}
		if time.Since(begin) > readyWithin {
			return nil, r.notReady(unready)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(readyPause):
		}
	}
}

// split returns the objects that are not Ready: samples and others.
func split(all []object, samples map[string]bool) (unready, others []object) {
	for _, o := range all {
		switch {
		case o.ready():
		case samples[o.key()]:
			unready = append(unready, o)
		default:
			others = append(others, o)
		}
	}
	return unready, others
}

func (r *localRun) notReady(unready []object) error {
	var text strings.Builder
	for _, o := range unready {
		text.WriteString(o.describe())
	}
	logs := make([]string, len(r.cardea))
	for i, p := range r.cardea {
		logs[i] = p.LogPath
	}
	return fmt.Errorf("%d samples are not Ready after %s:\n%slogs: %s", len(unready), readyWithin, text.String(), strings.Join(logs, " "))
}

func (r *localRun) list(ctx context.Context, what ...string) ([]object, error) {
	output, err := r.kubectl(ctx, append([]string{"get", "-o", "json"}, what...)...)
	if err != nil {
		return nil, err
	}
	return parseObjects(output)
}

// parseObjects parses a list, or the single object that kubectl prints without a list if one object was requested.
func parseObjects(output []byte) ([]object, error) {
	var list struct {
		Kind  string   `json:"kind"`
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, fmt.Errorf("output of kubectl: %w", err)
	}
	if list.Kind == "List" {
		return list.Items, nil
	}
	var single object
	if err := json.Unmarshal(output, &single); err != nil {
		return nil, fmt.Errorf("output of kubectl: %w", err)
	}
	return []object{single}, nil
}
