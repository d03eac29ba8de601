// Command gen-config writes the files that name every kind: the roles for users in config/rbac/users, the server's
// role, the list of CRDs, their JSON Schemas, and PROJECT.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run writes into the repository at root. It removes the roles of kinds that no longer exist.
func run(root string) error {
	config := filepath.Join(root, "config")
	users := filepath.Join(config, "rbac", "users")
	if err := os.RemoveAll(users); err != nil {
		return err
	}
	if err := os.MkdirAll(users, 0o755); err != nil {
		return err
	}
	for _, kind := range v1alpha1.Kinds {
		if err := write(filepath.Join(users, kind.Resource+".yaml"), roles, kind); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(users, "kustomization.yaml"), userList, v1alpha1.Kinds); err != nil {
		return err
	}
	if err := write(filepath.Join(config, "rbac", "server_role.yaml"), serverRole, v1alpha1.Kinds); err != nil {
		return err
	}
	if err := write(filepath.Join(config, "crd", "kustomization.yaml"), crdList, v1alpha1.Kinds); err != nil {
		return err
	}
	if err := write(filepath.Join(root, "PROJECT"), project, v1alpha1.Kinds); err != nil {
		return err
	}
	return writeSchemas(config)
}

func write(path, text string, data any) error {
	parsed, err := template.New(filepath.Base(path)).Parse(text)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
