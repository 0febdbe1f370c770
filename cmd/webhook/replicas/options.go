package replicas

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// Options are the flags that say where to ask. Make them with DefaultOptions.
type Options struct {
	Endpoint    Endpoint
	Redis       *redisclient.Options
	RedisPrefix string
}

// DefaultOptions name neither a replica nor a Redis.
func DefaultOptions() Options {
	return Options{Redis: redisclient.DefaultOptions(), RedisPrefix: redis.DefaultPrefix}
}

// AddFlags adds them to f, with their values as defaults.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	o.Endpoint.addFlags(f)
	o.Redis.AddFlags(f)
	f.StringVar(&o.RedisPrefix, "redis-prefix", o.RedisPrefix, "beginning of the names of all keys in Redis, as --redis-prefix of serve")
}

// UsesRedis tells whether to ask Redis, rather than one replica.
func (o *Options) UsesRedis() bool { return !reflect.DeepEqual(o.Redis, redisclient.DefaultOptions()) }

// Validate reports every flag that is missing, wrong or contradicts another.
func (o *Options) Validate() error {
	var where error
	switch {
	case o.UsesRedis() && o.Endpoint.IsSet():
		where = errors.New("--endpoint and --redis-url or --redis-addresses: only one may be set")
	case o.UsesRedis():
		where = o.Redis.Validate()
	case o.Endpoint.IsSet():
		where = o.Endpoint.validate()
	default:
		where = errors.New("--endpoint, --redis-url or --redis-addresses: one must be set")
	}
	if strings.ContainsAny(o.RedisPrefix, "{}") {
		return errors.Join(where, fmt.Errorf("--redis-prefix %q: must have no braces", o.RedisPrefix))
	}
	return where
}
