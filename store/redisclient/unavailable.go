package redisclient

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Unavailable reports whether a call failed because of Redis, and not because of its caller, of a key, or of a script that
// the server does not have yet. If a slot of a Cluster is moving or has no server, that is a failure of Redis.
func Unavailable(err error) bool {
	var redisErr redis.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, redis.Nil):
		return false
	case !errors.As(err, &redisErr):
		return true
	}
	text := redisErr.Error()
	if strings.HasPrefix(text, "NOSCRIPT") {
		return false
	}
	if !strings.HasPrefix(text, "WRONGTYPE") && !strings.Contains(text, "user_script") {
		return true
	}
	// These errors of commands in a script are about the server.
	for _, about := range []string{"READONLY", "OOM", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "NOPERM"} {
		if strings.Contains(text, about) {
			return true
		}
	}
	return false
}
