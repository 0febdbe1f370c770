package redisclient

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Unavailable reports whether a call failed because of Redis, and not because of its caller, of a key or of a script that
// the server does not know yet. A slot of a Cluster that is on its way to another server, or has none, is Redis' failure.
func Unavailable(err error) bool {
	var said redis.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, redis.Nil):
		return false
	case !errors.As(err, &said):
		return true
	}
	text := said.Error()
	if strings.HasPrefix(text, "NOSCRIPT") {
		return false
	}
	if !strings.HasPrefix(text, "WRONGTYPE") && !strings.Contains(text, "user_script") {
		return true
	}
	// Of what a command in a script may fail with, this is about the server.
	for _, about := range []string{"READONLY", "OOM", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "NOPERM"} {
		if strings.Contains(text, about) {
			return true
		}
	}
	return false
}
