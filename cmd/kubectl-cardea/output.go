package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// surroundings are the environment of a command.
type surroundings struct {
	in       io.Reader
	out, err io.Writer
	lookup   func(string) (string, bool)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// types reports whether the user types a text as the next line.
func (s surroundings) types(text string) bool {
	answer, _ := bufio.NewReader(s.in).ReadString('\n') // a line that was not ended counts as well
	return strings.TrimSpace(answer) == text
}

// style uses colors on a terminal, unless NO_COLOR is set or the terminal is dumb.
func (s surroundings) style() terminal.Style {
	_, without := s.lookup("NO_COLOR")
	kind, _ := s.lookup("TERM")
	return terminal.Style{Colour: isTerminal(s.out) && !without && kind != "dumb"}
}

// formats of output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// outputFlag registers -o with the formats of a command, of which the first is the default.
func outputFlag(cmd *cobra.Command, format *string, formats ...string) {
	cmd.Flags().StringVarP(format, "output", "o", formats[0], "format: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, *format) {
			return usagef("--output must be one of %s, not %q", strings.Join(formats, ", "), *format)
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// print writes a value as JSON or YAML, or calls a function to write it as text.
func (s surroundings) print(format string, value any, table func(io.Writer) error) error {
	switch format {
	case formatJSON:
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(s.out, terminal.CleanJSON(text))
		return err
	case formatYAML:
		text, err := terminal.YAML(value)
		if err != nil {
			return err
		}
		_, err = s.out.Write(text)
		return err
	}
	return table(s.out)
}
