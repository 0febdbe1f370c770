package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
)

//go:embed step.lua
var source string

//nolint:gochecknoglobals // As good as a constant.
var sha = redis.NewScript(source).Hash()

// Client carries commands to Redis. It is for any number of goroutines.
type Client interface {
	// Call runs commands once each and at the same time, in one round trip to each server
	// concerned. It returns the first error. When that is the context's, the commands may still be
	// running, and are not to be touched again.
	Call(ctx context.Context, cmds ...redis.Cmder) error
}

// run runs the script. A server that does not know it, as it is new in its place or was flushed, gets
// it in full. Arguments may be pointers, which cost no allocation; keys and what they point to are not
// to be changed.
func run(ctx context.Context, client Client, keys []string, args ...any) ([]any, error) {
	cmd := command(ctx, "evalsha", &sha, keys, args)
	err := client.Call(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = command(ctx, "eval", &source, keys, args)
		err = client.Call(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	answer, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("answer of the script: %w", err)
	}
	return answer, nil
}

func command(ctx context.Context, name any, script *string, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, name, script, len(keys))
	for i := range keys {
		all = append(all, &keys[i])
	}
	return redis.NewCmd(ctx, append(all, args...)...)
}

// notRun tells whether a command that failed was surely not run: Redis has said so, or there was no
// connection to carry it.
func notRun(err error) bool {
	var said redis.Error
	var network *net.OpError
	return errors.As(err, &said) || errors.As(err, &network) && network.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout)
}

var errAnswer = errors.New("script of Redis answers what it never does")

// integer is the n-th value of an answer, which is an integer or one as text.
func integer(answer []any, n int) (int64, error) {
	if n >= len(answer) {
		return 0, errAnswer
	}
	switch v := answer[n].(type) {
	case int64:
		return v, nil
	case string:
		i, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errAnswer, err)
		}
		return i, nil
	}
	return 0, errAnswer
}

// text is the n-th value of an answer, which is a string.
func text(answer []any, n int) (string, error) {
	if n < len(answer) {
		if v, ok := answer[n].(string); ok {
			return v, nil
		}
	}
	return "", errAnswer
}
