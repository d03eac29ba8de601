// Command lint-layout checks the layout of the repository: docs/architecture.md lists every package, each with a doc
// comment; no package of apiserver is more than three levels deep; no file has 400 lines or more, no function more than
// 60, and no type more than 40 methods. Comments have lines of at most 120 characters, and pages of at most 140. No
// name of a test begins with an id, and every test that a page names exists. The command prints one line per fault, and
// fails if there is a fault.
//
// Usage: lint-layout [root]; without a root, the working directory.
package main

import (
	"fmt"
	"os"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	faults, err := lint(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint-layout:", err)
		os.Exit(2)
	}
	for _, fault := range faults {
		fmt.Println(fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}
