package interleave

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/test/interleave/luaredis"
)

// labelKey is where a context says for whom something is done.
type labelKey struct{}

func withLabel(ctx context.Context, label string) context.Context {
	return context.WithValue(ctx, labelKey{}, label)
}

// reach is how Redis is reached.
type reach int

const (
	redisAnswers reach = iota
	redisRefuses       // no connection
	redisSilent        // nothing comes back, and nothing arrives
)

var _ redisclient.Caller = (*caller)(nil)

// caller is the way of one replica to Redis.
type caller struct {
	world   *world
	replica *replica
}

// call is the commands of one Call.
type call struct {
	server  *luaredis.Server
	args    [][]any
	keys    []string
	answers []any
	errs    []error
}

// over reports whether all of its commands were carried out.
func (c *call) over() bool { return len(c.answers) == len(c.args) }

// next carries out the next command. Commands of other callers may come between two.
func (c *call) next() {
	answer, err := c.server.Do(c.args[len(c.answers)]...)
	c.answers, c.errs = append(c.answers, answer), append(c.errs, err)
}

// Call implements redisclient.Caller.
func (c *caller) Call(ctx context.Context, cmds ...redis.Cmder) error {
	fail := func(err error) error {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
	if c.replica.reach == redisRefuses {
		if c.replica.stopped {
			c.replica.missed++
		}
		return fail(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	}
	made := &call{server: c.world.redis}
	for _, cmd := range cmds {
		args := cmd.Args()
		made.args = append(made.args, args)
		texts := make([]string, len(args))
		for i, arg := range args {
			texts[i] = luaredis.Text(arg)
		}
		made.keys = append(made.keys, luaredis.Keys(texts)...)
	}
	label, _ := ctx.Value(labelKey{}).(string)
	o := &operation{by: c.replica.name, says: c.world.inWords(label, made), redis: made, replica: c.replica, run: made.next}
	o.dropped = c.replica.reach == redisSilent
	if err := c.world.ops.ask(ctx, o); err != nil {
		return fail(err)
	}
	for i, cmd := range cmds {
		luaredis.Set(cmd, made.answers[i], made.errs[i])
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// errCut is what a client gets of a connection that was cut.
var errCut = fmt.Errorf("read: %w", io.ErrUnexpectedEOF)

// inWords says what a call is, for whom. The keys of registers and buckets have names.
func (w *world) inWords(label string, c *call) string {
	first := c.args[0]
	what := fmt.Sprint(first[0])
	if strings.HasPrefix(what, "eval") {
		what = "step"
		if keys := 3 + first[2].(int); keys < len(first) {
			if word, ok := first[keys].(string); ok && len(word) > 1 && len(word) < 12 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" {
				what = word
			}
		}
	}
	if len(c.args) > 1 {
		what += fmt.Sprintf(" and %d more", len(c.args)-1)
	}
	names := make([]string, 0, len(c.keys))
	for _, key := range c.keys {
		names = append(names, w.keyName(key))
	}
	if len(names) > 3 {
		names = append(names[:3], "...")
	}
	return fmt.Sprintf("%s, for %s, of %s", what, label, strings.Join(names, " "))
}
