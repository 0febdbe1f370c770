// Package redisclient makes clients of Redis from plain options: standalone, by Sentinel or as a Cluster. It reads TLS and
// password files again for each connection, so they may change while the process runs.
package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// clientName is the name of the connections in CLIENT LIST of Redis.
	clientName = "eventquota"
	// poolSize bounds the connections to each server.
	poolSize = 64
	// maxUnbatched is how many concurrent calls have a connection of their own, which is quicker for few calls. More calls are batched.
	maxUnbatched = 2
	// batchSize is how many calls a batch has, maxBatches how many batches may be under way, and maxQueued how many
	// calls may wait.
	batchSize, maxBatches, maxQueued = 16, 8, 4096
	// clusterReloadInterval is how old a client's view of a Cluster in use may get. A dead master sends no redirection, so
	// only a reload finds its successor.
	clusterReloadInterval = 500 * time.Millisecond
)

// New returns a client of the Redis that the options name. It does not connect yet, so it does not fail while Redis
// is unavailable. It fails on an invalid option and on an unusable file. The caller closes the client.
//
// The deadline of a call's context bounds the whole call. Calls are not retried, as callers have no
// time to wait, but in a Cluster they follow redirections.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	_, tlsErr := o.tlsConfig()
	_, passwordErr := password("--redis-password-file", o.PasswordFile)
	_, sentinelErr := password("--redis-sentinel-password-file", o.SentinelPasswordFile)
	if err := errors.Join(tlsErr, passwordErr, sentinelErr); err != nil {
		return nil, err
	}
	u := o.universal()
	if o.Cluster {
		// No batches: a batch would wait for the slowest master, and may report a command that ran as redirected.
		c := u.Cluster()
		c.ClusterStateReloadInterval = clusterReloadInterval
		return &Client{UniversalClient: redis.NewClusterClient(c)}, nil
	}
	// Not full-duplex, which would keep a connection that answers READONLY.
	b := redis.DefaultAutoPipelineOptions()
	b.MaxQueuedCommands, b.MaxBatchSize, b.MaxConcurrentBatches, b.Unordered = maxQueued, batchSize, maxBatches, true
	c := redis.NewUniversalClient(u)
	batches, err := c.AsyncAutoPipelineWithOptions(b)
	return &Client{UniversalClient: c, batches: batches}, err
}

func (o *Options) universal() *redis.UniversalOptions {
	u := &redis.UniversalOptions{
		Addrs: o.Addresses, MasterName: o.SentinelMaster, IsClusterMode: o.Cluster, DB: o.Database,
		Dialer: o.dialer(),

		PoolSize: poolSize, PoolTimeout: o.Timeout,
		DialTimeout: o.Timeout, DialerRetries: 1,
		ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, ContextTimeoutEnabled: true,
		MaxRetries: -1, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 8 * time.Millisecond,

		// These would cost each connection a round trip, and need more rights.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.PasswordFile != "" {
		u.CredentialsProviderContext = func(context.Context) (string, string, error) {
			secret, err := password("--redis-password-file", o.PasswordFile)
			return o.Username, secret, err
		}
	}
	if o.SentinelPasswordFile == "" {
		u.ClientName = clientName
	} else {
		u.OnConnect = o.onConnect
	}
	return u
}

// onConnect authenticates at sentinels, as the library does not read a password file for these. A new connection to a sentinel has
// no rights, not even to set its name.
func (o *Options) onConnect(ctx context.Context, cn *redis.Conn) error {
	err := cn.ClientSetName(ctx, clientName).Err()
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
		return fmt.Errorf("authenticate at a sentinel: %w", err)
	}
	return cn.ClientSetName(ctx, clientName).Err()
}

// dialer returns a dialer that reads the TLS files for each connection.
func (o *Options) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{
		Timeout: o.Timeout,
		// A dead host is noticed within half a minute.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !o.TLS {
			return plain.DialContext(ctx, network, addr)
		}
		config, err := o.tlsConfig()
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext(ctx, network, addr)
	}
}

// tlsConfig reads the TLS files.
func (o *Options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--redis-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--redis-ca-file %s: has no certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--redis-cert-file and --redis-key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// password reads a password file.
func password(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s %s: is empty", flag, path)
	}
	return secret, nil
}

// Client is a client of Redis for calls with short deadlines. It is safe for concurrent use.
type Client struct {
	redis.UniversalClient

	batches  *redis.AutoPipeliner // nil in a Cluster
	inFlight atomic.Int64         // calls under way
}

// Call runs commands in one round trip to each server concerned, and returns the first error. If the context is done before, the
// commands may still be running, and reading a result would wait for it. A command is only run again if it certainly did not run.
func (c *Client) Call(ctx context.Context, cmds ...redis.Cmder) error {
	defer c.inFlight.Add(-1)
	if c.inFlight.Add(1) > maxUnbatched && len(cmds) == 1 && c.batches != nil {
		return c.batches.Submit(ctx, withoutRetry(cmds[0])).WaitContext(ctx)
	}
	if len(cmds) == 1 {
		return c.Process(ctx, withoutRetry(cmds[0]))
	}
	p := c.Pipeline()
	for _, cmd := range cmds {
		if err := p.Process(ctx, withoutRetry(cmd)); err != nil {
			return err
		}
	}
	_, err := p.Exec(ctx)
	return err
}

// withoutRetry returns a command that is not retried if its answer was lost, as it may have run. It follows redirections.
func withoutRetry(cmd redis.Cmder) redis.Cmder {
	if script, ok := cmd.(*redis.Cmd); ok {
		return noRetryCmd{script} // without an allocation
	}
	return noRetry{cmd}
}

type (
	noRetry    struct{ redis.Cmder }
	noRetryCmd struct{ *redis.Cmd }
)

// NoRetry is called by the library.
func (noRetry) NoRetry() bool { return true }

// NoRetry is called by the library.
func (noRetryCmd) NoRetry() bool { return true }

// Caller sends commands to Redis. It is safe for concurrent use.
type Caller interface {
	// Call runs commands as Client.Call does.
	Call(ctx context.Context, cmds ...redis.Cmder) error
}

// Script is a Lua script.
type Script struct{ source, sha any }

// NewScript returns the Script of a source.
func NewScript(source string) *Script {
	return &Script{source: source, sha: redis.NewScript(source).Hash()}
}

// Run runs a script and returns its answer. It sends the source to a server that does not have the script, because it is new
// or was flushed. The command keeps keys and args. If ctx ends, it may be sent after Run has returned.
func (s *Script) Run(ctx context.Context, c Caller, keys []string, args ...any) ([]any, error) {
	cmd := command(ctx, "evalsha", s.sha, keys, args)
	err := c.Call(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = command(ctx, "eval", s.source, keys, args)
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

func command(ctx context.Context, name string, script any, keys []string, args []any) *redis.Cmd {
	all := append(make([]any, 0, 3+len(keys)+len(args)), name, script, len(keys))
	for i := range keys {
		all = append(all, &keys[i]) // a pointer needs no allocation
	}
	return redis.NewCmd(ctx, append(all, args...)...)
}

// NotRun reports whether a failed command certainly did not run: Redis said so, there was no connection, or a
// Breaker was open.
func NotRun(err error) bool {
	var redisErr redis.Error
	var network *net.OpError
	return errors.As(err, &redisErr) || errors.As(err, &network) && network.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, ErrOpen)
}
