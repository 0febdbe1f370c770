package redisclient

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
)

// LogTo sends what the Redis library logs to log, at V(1): it is about single
// connections, and calls return the errors that matter. The library has one
// logger for all clients of the process, so this is for main to call, once and
// before New.
func LogTo(log logr.Logger) { redis.SetLogger(libraryLogger{log}) }

type libraryLogger struct{ log logr.Logger }

// Printf is called by the library.
func (l libraryLogger) Printf(_ context.Context, format string, args ...any) {
	l.log.V(1).Info("Redis client reports", "report", fmt.Sprintf(format, args...))
}
