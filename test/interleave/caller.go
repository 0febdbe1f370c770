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

// labelKey is the context key of the label that names the caller in a schedule.
type labelKey struct{}

// withLabel returns a context with a label.
func withLabel(ctx context.Context, label string) context.Context {
	return context.WithValue(ctx, labelKey{}, label)
}

// redisLink is the state of the connection of a replica to Redis.
type redisLink int

const (
	redisAnswers redisLink = iota
	redisRefuses           // no connection
	redisSilent            // commands do not arrive, and no answers come
)

var _ redisclient.Caller = (*caller)(nil)

// caller is the connection of one replica to Redis.
type caller struct {
	world   *world
	replica *replica
}

// call has the commands of one Call, and the answers so far.
type call struct {
	server  *luaredis.Server
	args    [][]any
	keys    []string
	answers []any
	errs    []error
}

// over reports whether all commands were executed.
func (c *call) over() bool { return len(c.answers) == len(c.args) }

// next executes the next command. Other callers' commands may come between two of them.
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
	if c.replica.redisLink == redisRefuses {
		if c.replica.stopped {
			c.replica.unanswered++
		}
		return fail(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	}
	batch := &call{server: c.world.redis}
	for _, cmd := range cmds {
		args := cmd.Args()
		batch.args = append(batch.args, args)
		texts := make([]string, len(args))
		for i, arg := range args {
			texts[i] = luaredis.Text(arg)
		}
		batch.keys = append(batch.keys, luaredis.Keys(texts)...)
	}
	label, _ := ctx.Value(labelKey{}).(string)
	o := &operation{by: c.replica.name, name: c.world.describeCall(label, batch), redis: batch, replica: c.replica, run: batch.next}
	o.dropped = c.replica.redisLink == redisSilent
	if err := c.world.ops.submit(ctx, o); err != nil {
		return fail(err)
	}
	for i, cmd := range cmds {
		luaredis.Set(cmd, batch.answers[i], batch.errs[i])
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// errCut is the error of a client whose connection was cut.
var errCut = fmt.Errorf("read: %w", io.ErrUnexpectedEOF)

// describeCall returns a description of a call, with its label and the names of its keys.
func (w *world) describeCall(label string, c *call) string {
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
