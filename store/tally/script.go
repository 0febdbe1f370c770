package tally

import (
	"context"
	"embed"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is a Lua script about one key: what all use, and what is its own.
type script struct{ source, sha string }

func newScript(name string) script {
	var source strings.Builder
	for _, part := range []string{"ledger", name} {
		text, err := luaFiles.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // it is not in the program
		}
		source.Write(text)
	}
	return script{source: source.String(), sha: redis.NewScript(source.String()).Hash()}
}

// call is one call of a script.
type call struct {
	key        string
	arg        []byte
	*redis.Cmd // the answer; nil while there is none
}

// run calls s, in one trip unless a server does not know s: it may be new in its
// place. Then, and only there, it calls again. The error is the first one.
func (s script) run(ctx context.Context, client Client, calls []*call) error {
	err := s.send(ctx, client, calls, "evalsha", s.sha)
	if err != nil && ctx.Err() != nil {
		return err
	}
	var unknown []*call
	for _, c := range calls {
		switch e := c.Err(); {
		case redis.HasErrorPrefix(e, "NOSCRIPT"):
			unknown = append(unknown, c)
		case failed(e):
			return e
		}
	}
	switch {
	case len(unknown) > 0:
		if err := s.send(ctx, client, unknown, "eval", s.source); failed(err) {
			return err
		}
	case failed(err):
		return err
	}
	return nil
}

// send is one trip. When ctx is done first, there are no answers, as commands
// may still be running.
func (s script) send(ctx context.Context, client Client, calls []*call, command, what string) error {
	cmds, answers := make([]redis.Cmder, len(calls)), make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		answers[i] = redis.NewCmd(ctx, command, what, 1, c.key, c.arg)
		cmds[i] = answers[i]
	}
	err := client.Call(ctx, cmds...)
	if err != nil && ctx.Err() != nil {
		return err
	}
	for i, c := range calls {
		c.Cmd = answers[i]
	}
	return err
}

// failed tells whether err is more than that a script answered nothing.
func failed(err error) bool { return err != nil && !errors.Is(err, redis.Nil) }
