package store

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// Client carries commands to Redis. It is for any number of goroutines.
type Client interface {
	// Call runs commands once each and at the same time, in one round trip to
	// each server concerned. It returns the first error. When that is the
	// context's, the commands may still be running.
	Call(ctx context.Context, cmds ...redis.Cmder) error
}

// scripts are what a Redis store runs.
type scripts struct{ merge, take, refuse, inherit, peek, claim, settle script }

func newScripts() scripts {
	return scripts{
		merge:   newScript("group", "write", "record", "expect", "spam", "merge"),
		take:    newScript("group", "write", "spam", "usual", "record", "balance", "expect", "take"),
		refuse:  newScript("group", "record", "refuse"),
		inherit: newScript("group", "record", "balance", "inherit"),
		peek:    newScript("peek"),
		claim:   newScript("group", "record", "claim"),
		settle:  newScript("group", "record", "settle"),
	}
}

// script is a Lua script, put together from files of which later ones use what
// earlier ones define.
type script struct{ source, sha string }

func newScript(files ...string) script {
	var source strings.Builder
	for _, name := range files {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is not in the program
		}
		source.Write(text)
	}
	s := withConstants(source.String())
	return script{source: s, sha: redis.NewScript(s).Hash()}
}

var (
	luaConstants = regexp.MustCompile(`(?m)^local ([A-Z_]+(?:, [A-Z_]+)*) = ([0-9]+(?:, [0-9]+)*)$`)
	luaCapitals  = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)
)

// withConstants puts numbers in the place of the names in capitals that lines
// of their own define. Other words in capitals stay.
func withConstants(source string) string {
	numbers := map[string]string{}
	source = luaConstants.ReplaceAllStringFunc(source, func(line string) string {
		parts := luaConstants.FindStringSubmatch(line)
		values := strings.Split(parts[2], ", ")
		for i, name := range strings.Split(parts[1], ", ") {
			numbers[name] = values[i]
		}
		return ""
	})
	return luaCapitals.ReplaceAllStringFunc(source, func(word string) string { return cmp.Or(numbers[word], word) })
}

// call is one call of a script.
type call struct {
	script     script
	keys       []string
	args       []any
	*redis.Cmd // nil while there is no answer
}

// trip is the calls of scripts that go to Redis and back together. Its zero
// value is empty.
type trip struct{ calls []*call }

// add puts one more call into t. Its answer is there once t was sent.
func (t *trip) add(s script, keys []string, args ...any) *call {
	c := &call{script: s, keys: keys, args: args}
	t.calls = append(t.calls, c)
	return c
}

// send sends all calls, in one round trip unless a server does not know a
// script any more: it may be new in its place, or its scripts may have been
// flushed. The error is that of the first call that failed.
func (t *trip) send(ctx context.Context, client Client) error {
	err := run(ctx, client, t.calls, false)
	if !redis.HasErrorPrefix(err, "NOSCRIPT") || ctx.Err() != nil {
		return err
	}
	var unknown []*call
	for _, c := range t.calls {
		if redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if err := run(ctx, client, unknown, true); err != nil {
		return err
	}
	answers := make([]*redis.Cmd, len(t.calls))
	for i, c := range t.calls {
		answers[i] = c.Cmd
	}
	return worst(answers, nil)
}

// run runs calls at once, each by its script's hash or, in full, by its source.
// None has an answer if the context is done before.
func run(ctx context.Context, client Client, calls []*call, full bool) error {
	if len(calls) == 0 {
		return nil
	}
	cmds := make([]redis.Cmder, len(calls))
	answers := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		answers[i] = c.command(ctx, full)
		cmds[i] = answers[i]
	}
	err := client.Call(ctx, cmds...)
	if ctx.Err() != nil && err != nil {
		return err // the commands may still be running
	}
	for i, c := range calls {
		c.Cmd = answers[i]
	}
	return worst(answers, err)
}

// worst is the first error of answers, that of a script which is not known before
// all others; err is for what has no answer. A script may answer nothing.
func worst(answers []*redis.Cmd, err error) error {
	var first error
	for _, answer := range answers {
		switch e := answer.Err(); {
		case e == nil, errors.Is(e, redis.Nil):
		case redis.HasErrorPrefix(e, "NOSCRIPT"):
			return e
		case first == nil:
			first = e
		}
	}
	if first == nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return first
}

func (c *call) command(ctx context.Context, full bool) *redis.Cmd {
	args := make([]any, 0, 3+len(c.keys)+len(c.args))
	if full {
		args = append(args, "eval", c.script.source)
	} else {
		args = append(args, "evalsha", c.script.sha)
	}
	args = append(args, len(c.keys))
	for _, key := range c.keys {
		args = append(args, key)
	}
	return redis.NewCmd(ctx, append(args, c.args...)...)
}
