package luaredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Set sets the answer or the error of a command, as a client of Redis does.
func Set(cmd redis.Cmder, answer any, err error) {
	if err == nil && answer == nil {
		err = redis.Nil
	}
	if err != nil {
		cmd.SetErr(err)
		return
	}
	ok := true
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		cmd.SetVal(answer)
	case *redis.StringCmd:
		var text string
		text, ok = answer.(string)
		cmd.SetVal(text)
	case *redis.StatusCmd:
		var text string
		text, ok = answer.(string)
		cmd.SetVal(text)
	case *redis.IntCmd:
		var n int64
		n, ok = answer.(int64)
		cmd.SetVal(n)
	case *redis.SliceCmd:
		var list []any
		list, ok = answer.([]any)
		cmd.SetVal(list)
	default:
		ok = false
	}
	if !ok {
		cmd.SetErr(fmt.Errorf("luaredis: %T cannot hold an answer of type %T", cmd, answer))
	}
}

// Call implements redisclient.Caller.
func (s *Server) Call(ctx context.Context, cmds ...redis.Cmder) error {
	var first error
	for _, cmd := range cmds {
		answer, err := any(nil), ctx.Err()
		if err == nil {
			answer, err = s.Do(cmd.Args()...)
		}
		Set(cmd, answer, err)
		if first == nil && cmd.Err() != nil {
			first = cmd.Err()
		}
	}
	return first
}
