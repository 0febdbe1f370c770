// Package redisclient makes clients of Redis from plain options: standalone, by
// Sentinel or as a Cluster, with TLS and passwords from files that may change
// while they are in use. What a client's connections need is read anew for each
// connection, so that a change, a failover or a restart heals without a restart
// of this process.
package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ClientName is what Redis' CLIENT LIST shows of the connections.
const ClientName = "eventquota"

// reloadEvery is how old a client's view of a Cluster may get, in use. A lost
// master answers no redirection, and nothing else names its successor.
const reloadEvery = 500 * time.Millisecond

// New makes a client of the Redis that the options name. It connects nowhere
// yet, so that it does not fail where Redis is unavailable; it does fail on an option
// that is wrong and on a file that cannot be used. The caller closes it.
//
// The deadline of a call's context holds for all of it. On one server no call
// is tried again, as its caller has no time to wait; in a Cluster it follows
// redirections.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := o.target()
	if err != nil {
		return nil, err
	}
	if err := o.readable(t); err != nil {
		return nil, err
	}
	u := o.universal(t)
	if !o.Cluster {
		return newClient(redis.NewUniversalClient(u))
	}
	c := u.Cluster()
	c.ClusterStateReloadInterval = reloadEvery
	return newClient(redis.NewClusterClient(c))
}

// readable says which file cannot be used.
func (o *Options) readable(t target) error {
	_, err := o.dialer(t).config()
	_, passwordErr := password("--redis-password-file", o.PasswordFile)
	_, sentinelErr := password("--redis-sentinel-password-file", o.SentinelPasswordFile)
	return errors.Join(err, passwordErr, sentinelErr)
}

func (o *Options) universal(t target) *redis.UniversalOptions {
	u := &redis.UniversalOptions{
		Addrs: t.addresses, MasterName: o.SentinelMaster, IsClusterMode: o.Cluster, DB: t.database,
		Dialer: o.dialer(t).dial,

		PoolSize: o.PoolSize, PoolTimeout: o.Timeout,
		DialTimeout: o.DialTimeout, DialerRetries: 1,
		ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, ContextTimeoutEnabled: true,
		MaxRetries: -1, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 8 * time.Millisecond,

		// They would cost a round trip for each connection, and rights.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.PasswordFile != "" {
		u.CredentialsProviderContext = func(context.Context) (string, string, error) {
			secret, err := password("--redis-password-file", o.PasswordFile)
			return t.username, secret, err
		}
	}
	if o.SentinelPasswordFile == "" {
		u.ClientName = ClientName
	} else {
		u.OnConnect = o.onConnect
	}
	if t.network == "unix" {
		dial := o.dialer(t)
		u.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
			return dial.dial(ctx, "unix", addr)
		}
	}
	return u
}

// onConnect signs in at sentinels, for which the library reads no file: there a
// connection comes without any rights, and not even its name can be set.
func (o *Options) onConnect(ctx context.Context, cn *redis.Conn) error {
	err := cn.ClientSetName(ctx, ClientName).Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		return err
	}
	secret, err := password("--redis-sentinel-password-file", o.SentinelPasswordFile)
	if err != nil {
		return err
	}
	if o.SentinelUsername != "" {
		err = cn.AuthACL(ctx, o.SentinelUsername, secret).Err()
	} else {
		err = cn.Auth(ctx, secret).Err()
	}
	if err != nil {
		return fmt.Errorf("sign in at a sentinel: %w", err)
	}
	return cn.ClientSetName(ctx, ClientName).Err()
}

// Check says in one error what keeps a client from Redis, within the context's
// deadline.
func Check(ctx context.Context, c redis.UniversalClient) error {
	if err := c.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("connect to redis: %w", err)
	}
	return nil
}
