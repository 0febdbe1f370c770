package luaredis

import (
	"crypto/sha1" // Redis names scripts by it
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// Engine runs the scripts of any number of Servers, one at a time. It caches compiled scripts.
type Engine struct {
	state         *lua.LState
	scripts       map[string]*lua.LFunction // by the hash of their source
	compileErrors map[string]error
	server        *Server // the server whose script runs
	sums          map[string]string
}

// NewEngine returns an Engine without scripts.
func NewEngine() *Engine {
	e := &Engine{
		state:   lua.NewState(lua.Options{SkipOpenLibs: true}),
		scripts: map[string]*lua.LFunction{}, compileErrors: map[string]error{}, sums: map[string]string{},
	}
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenString, lua.OpenTable, lua.OpenMath} {
		e.state.Push(e.state.NewFunction(open))
		e.state.Call(0, 0)
	}
	api := e.state.NewTable()
	e.state.SetFuncs(api, map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return e.call(l, true) },
		"pcall":        func(l *lua.LState) int { return e.call(l, false) },
		"error_reply":  func(l *lua.LState) int { return reply(l, "err") },
		"status_reply": func(l *lua.LState) int { return reply(l, "ok") },
	})
	globals := e.state.G.Global
	globals.RawSetString("redis", api)
	protect := e.state.NewTable()
	refuse := e.state.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.ToString(2))
		return 0
	})
	protect.RawSetString("__newindex", refuse)
	protect.RawSetString("__index", refuse)
	globals.RawSetString("KEYS", lua.LNil)
	e.state.SetMetatable(globals, protect)
	return e
}

// load compiles a script and returns its hash.
func (e *Engine) load(source string) string {
	if sum := e.sums[source]; sum != "" {
		return sum
	}
	hash := sha1.Sum([]byte(source))
	sum := hex.EncodeToString(hash[:])
	e.sums[source] = sum
	parsed, err := parse.Parse(strings.NewReader(source), "script")
	if err == nil {
		var compiled *lua.FunctionProto
		if compiled, err = lua.Compile(parsed, "script"); err == nil {
			e.scripts[sum] = e.state.NewFunctionFromProto(compiled)
		}
	}
	e.compileErrors[sum] = err
	return sum
}

// script runs the script with a hash. args has the whole command.
func (s *Server) script(sum string, args []string) (answer any, err error) {
	e := s.engine
	if err := e.compileErrors[sum]; err != nil {
		return nil, Error("ERR Error compiling script: " + err.Error())
	}
	keys := Keys(args)
	s.frozen, e.server = s.micros(), s
	defer func() { s.frozen, e.server = 0, nil }()
	globals := e.state.G.Global
	globals.RawSetString("KEYS", list(e.state, keys))
	globals.RawSetString("ARGV", list(e.state, args[3+len(keys):]))
	if err := e.state.CallByParam(lua.P{Fn: e.scripts[sum], NRet: 1, Protect: true}); err != nil {
		return nil, Error("ERR " + strings.Split(err.Error(), "\n")[0])
	}
	result := e.state.Get(-1)
	e.state.Pop(1)
	return toReply(result)
}

// list returns texts as a Lua table.
func list(l *lua.LState, texts []string) *lua.LTable {
	t := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// call implements redis.call and, if not raises, redis.pcall.
func (e *Engine) call(l *lua.LState, raises bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = argument(l, l.Get(i+1))
	}
	answer, err := e.server.command(args)
	switch {
	case err != nil && raises:
		l.RaiseError("%s", err.Error())
	case err != nil:
		t := l.NewTable()
		t.RawSetString("err", lua.LString(err.Error()))
		l.Push(t)
	default:
		l.Push(fromReply(l, answer))
	}
	return 1
}

// argument converts a value to an argument of a command. It formats numbers with 17 digits, as Redis does.
func argument(l *lua.LState, v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		if n := float64(v); n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return strconv.FormatInt(int64(n), 10)
		}
		return strconv.FormatFloat(float64(v), 'g', 17, 64)
	}
	l.RaiseError("Lua redis lib command arguments must be strings or integers")
	return ""
}

// reply implements redis.status_reply and redis.error_reply, whose tables have the field ok or err.
func reply(l *lua.LState, field string) int {
	t := l.NewTable()
	t.RawSetString(field, lua.LString(l.CheckString(1)))
	l.Push(t)
	return 1
}

// fromReply converts an answer to a Lua value, as Redis does for the result of redis.call.
func fromReply(l *lua.LState, answer any) lua.LValue {
	switch answer := answer.(type) {
	case int64:
		return lua.LNumber(answer)
	case string:
		return lua.LString(answer)
	case status:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(answer))
		return t
	case []any:
		t := l.CreateTable(len(answer), 0)
		for _, entry := range answer {
			t.Append(fromReply(l, entry))
		}
		return t
	}
	return lua.LFalse
}

// toReply converts the result of a script to an answer. Numbers lose their fraction, and false becomes nil.
func toReply(v lua.LValue) (any, error) {
	switch v := v.(type) {
	case lua.LNumber:
		return int64(v), nil
	case lua.LString:
		return string(v), nil
	case lua.LBool:
		if v {
			return int64(1), nil
		}
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return nil, Error(text)
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return status(text), nil
		}
		elements := []any{}
		for i := 1; ; i++ {
			entry := v.RawGetInt(i)
			if entry == lua.LNil {
				return elements, nil
			}
			answer, err := toReply(entry)
			if err != nil {
				return nil, err
			}
			elements = append(elements, answer)
		}
	}
	return nil, nil //nolint:nilnil // the answer is nil
}
