// Package argohealth computes the health of an object with config/argocd/health.lua, in the interpreter that Argo CD
// uses.
package argohealth

import (
	"fmt"
	"os"
	"path/filepath"

	lua "github.com/yuin/gopher-lua"

	"github.com/cardea-iam/cardea/internal/testing/repository"
)

// Of returns the status (Healthy, Progressing, Degraded, Suspended) and the message that the script returns for an
// object in unstructured JSON. It fails if the script fails or returns no table.
func Of(object map[string]any) (status, message string, err error) {
	script, err := os.ReadFile(filepath.Join(repository.Root(), "config", "argocd", "health.lua"))
	if err != nil {
		return "", "", err
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	state.Push(state.NewFunction(lua.OpenBase))
	state.Call(0, 0) // ipairs; Argo CD opens more than that
	state.SetGlobal("obj", luaOf(state, object))
	if err := state.DoString(string(script)); err != nil {
		return "", "", err
	}
	answer, is := state.Get(-1).(*lua.LTable)
	if !is {
		return "", "", fmt.Errorf("health.lua returns %v, no table", state.Get(-1))
	}
	return answer.RawGetString("status").String(), answer.RawGetString("message").String(), nil
}

func luaOf(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for name, member := range v {
			table.RawSetString(name, luaOf(state, member))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, member := range v {
			table.Append(luaOf(state, member))
		}
		return table
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	default:
		return lua.LNil
	}
}
