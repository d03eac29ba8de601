// Command lint-api checks rules that no schema generator enforces: every field of the custom resources is documented,
// bounded, and marked as required or optional. It prints one line per fault, and fails if there is a fault.
//
// Usage: lint-api [folder...]; without a folder, api/v1alpha1.
package main

import (
	"fmt"
	"os"
)

func main() {
	folders := os.Args[1:]
	if len(folders) == 0 {
		folders = []string{"api/v1alpha1"}
	}
	failed := false
	for _, folder := range folders {
		faults, err := lint(folder)
		if err != nil {
			fmt.Fprintln(os.Stderr, "lint-api:", err)
			os.Exit(2)
		}
		for _, f := range faults {
			fmt.Println(f)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
