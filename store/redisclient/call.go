package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// Client is a client of Redis for calls with short deadlines. It may be used concurrently.
type Client struct{ redis.UniversalClient }

// Call runs commands in one round trip to each server concerned, until the deadline of the context. It returns the first
// error. A command is only run again if it surely did not run before.
func (c *Client) Call(ctx context.Context, cmds ...redis.Cmder) error {
	if len(cmds) == 1 {
		return c.Process(ctx, once{cmds[0]})
	}
	p := c.Pipeline()
	for _, cmd := range cmds {
		if err := p.Process(ctx, once{cmd}); err != nil {
			return err
		}
	}
	_, err := p.Exec(ctx)
	return err
}

// once is a command that is not retried when its answer was lost, as it may have run. It still follows a
// Cluster's redirections.
type once struct{ redis.Cmder }

// NoRetry is asked by the library.
func (once) NoRetry() bool { return true }

// Caller carries commands to Redis. It may be used concurrently.
type Caller interface {
	// Call runs commands as Client.Call does.
	Call(ctx context.Context, cmds ...redis.Cmder) error
}

var _ Caller = (*Client)(nil)

// Script is a Lua script.
type Script struct{ source, sha string }

// NewScript makes a Script from its source.
func NewScript(source string) *Script {
	return &Script{source: source, sha: redis.NewScript(source).Hash()}
}

// Run runs a script and returns its answer. A server that does not know it, because it is new or was flushed, gets
// it in full. Arguments may be pointers, which cost no allocation; keys and what they point to must not change.
func (s *Script) Run(ctx context.Context, c Caller, keys []string, args ...any) ([]any, error) {
	cmd := command(ctx, "evalsha", &s.sha, keys, args)
	err := c.Call(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = command(ctx, "eval", &s.source, keys, args)
		err = c.Call(ctx, cmd)
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

// NotRun reports whether a command that failed surely did not run: Redis said so, or there was no connection.
func NotRun(err error) bool {
	var said redis.Error
	var network *net.OpError
	return errors.As(err, &said) || errors.As(err, &network) && network.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout)
}
