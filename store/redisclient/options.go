package redisclient

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
)

// Options say where Redis is, as whom to connect and how. Exactly one of URL and Addresses must be set.
type Options struct {
	// URL is redis://host:port/database, rediss://host:port/database for TLS,
	// or unix:///path?db=database; each with user@ before the host if needed.
	URL string
	// Addresses are host:port: one server, sentinels with SentinelMaster, or
	// any servers of a Redis Cluster with Cluster.
	Addresses      []string
	SentinelMaster string
	Cluster        bool

	Username string
	// PasswordFile is read for each new connection, without a newline at its end.
	PasswordFile         string
	SentinelUsername     string
	SentinelPasswordFile string
	// Database is 0 or more, and 0 with Cluster.
	Database int

	TLS bool
	// CAFile, CertFile and KeyFile are PEM files, read for each new connection.
	// CAFile empty is the system's CAs; the other two are set together or not.
	CAFile, CertFile, KeyFile string
	// ServerName is the name that the server's certificate must have, empty for the host connected to.
	ServerName string

	// PoolSize is the connections to each server, at least 1.
	PoolSize int
	// DialTimeout is how long a connection may take to be made, more than 0.
	DialTimeout time.Duration
	// Timeout is how long an answer may take, more than 0, unless the caller's context has an earlier deadline.
	Timeout time.Duration
}

// DefaultOptions name no server.
func DefaultOptions() *Options {
	return &Options{PoolSize: 32, DialTimeout: time.Second, Timeout: 500 * time.Millisecond}
}

// AddFlags adds a flag for each option, with its present value as default.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.URL, "redis-url", o.URL, "Redis as redis://user@host:port/database, rediss:// for TLS, or unix:///path?db=database; its password goes into --redis-password-file")
	f.StringSliceVar(&o.Addresses, "redis-addresses", o.Addresses, "Redis as host:port instead of --redis-url; several for Sentinel or a Cluster")
	f.StringVar(&o.SentinelMaster, "redis-sentinel-master", o.SentinelMaster, "name of the master that sentinels know; the addresses are then those of sentinels")
	f.BoolVar(&o.Cluster, "redis-cluster", o.Cluster, "whether the addresses are servers of a Redis Cluster; any of them will do")
	f.StringVar(&o.Username, "redis-username", o.Username, "ACL user at Redis; empty for the default user")
	f.StringVar(&o.PasswordFile, "redis-password-file", o.PasswordFile, "file with the password at Redis, read again for each new connection; empty for none")
	f.StringVar(&o.SentinelUsername, "redis-sentinel-username", o.SentinelUsername, "ACL user at the sentinels; empty for the default user")
	f.StringVar(&o.SentinelPasswordFile, "redis-sentinel-password-file", o.SentinelPasswordFile, "file with the password at the sentinels, read again for each new connection; empty for none")
	f.IntVar(&o.Database, "redis-database", o.Database, "number of the database, 0 or more; 0 in a Cluster")
	f.BoolVar(&o.TLS, "redis-tls", o.TLS, "whether to connect by TLS, as rediss:// does")
	f.StringVar(&o.CAFile, "redis-ca-file", o.CAFile, "PEM file of the CAs that may sign Redis' certificates, read again for each new connection; empty for the system's")
	f.StringVar(&o.CertFile, "redis-cert-file", o.CertFile, "PEM file of the client certificate, read again for each new connection; empty for none")
	f.StringVar(&o.KeyFile, "redis-key-file", o.KeyFile, "PEM file of the client certificate's key, read again for each new connection; empty for none")
	f.StringVar(&o.ServerName, "redis-server-name", o.ServerName, "name that Redis' certificates must have; empty for the host connected to")
	f.IntVar(&o.PoolSize, "redis-pool-size", o.PoolSize, "connections to each Redis server, at least 1")
	f.DurationVar(&o.DialTimeout, "redis-dial-timeout", o.DialTimeout, "how long making a connection may take, at least 1ms")
	f.DurationVar(&o.Timeout, "redis-timeout", o.Timeout, "how long an answer may take where nothing sets an earlier deadline, at least 1ms")
}

// Validate reports every option that is missing, out of its range or contradicts
// another, by the names of their flags. It opens no file and connects nowhere.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	target, err := o.target()
	check(err == nil, "%w", err)
	check(o.URL != "" || len(o.Addresses) > 0, "--redis-url or --redis-addresses: one must be set")
	check(o.URL == "" || len(o.Addresses) == 0, "--redis-url and --redis-addresses: only one may be set")
	for _, a := range o.Addresses {
		check(isAddress(a), "--redis-addresses %q: must be host:port with a port from 1 to 65535", a)
	}
	several := o.Cluster || o.SentinelMaster != ""
	check(len(o.Addresses) < 2 || several, "--redis-addresses: more than one needs --redis-sentinel-master or --redis-cluster")
	check(!o.Cluster || o.SentinelMaster == "", "--redis-cluster and --redis-sentinel-master: only one may be set")
	check(target.network != "unix" || !several, "--redis-url: a unix socket is one server, without --redis-cluster or --redis-sentinel-master")
	check(target.network != "unix" || !o.TLS, "--redis-url and --redis-tls: a unix socket has no TLS")

	check(o.Username == "" || target.fromURL.username == "", "--redis-username: is in --redis-url already")
	check(target.username == "" || o.PasswordFile != "", "--redis-password-file: must be set for the user %q", target.username)
	check(o.SentinelMaster != "" || o.SentinelUsername == "" && o.SentinelPasswordFile == "",
		"--redis-sentinel-username and --redis-sentinel-password-file: need --redis-sentinel-master")
	check(o.SentinelUsername == "" || o.SentinelPasswordFile != "", "--redis-sentinel-password-file: must be set for --redis-sentinel-username")
	check(o.Database == 0 || target.fromURL.database == 0, "--redis-database: is in --redis-url already")
	check(target.database >= 0, "--redis-database %d: must be 0 or more", target.database)
	check(target.database == 0 || !o.Cluster, "--redis-database %d: must be 0 with --redis-cluster", target.database)

	check((o.CertFile == "") == (o.KeyFile == ""), "--redis-cert-file and --redis-key-file: must be set both or not at all")
	check(target.tls || o.CAFile+o.CertFile+o.KeyFile+o.ServerName == "",
		"--redis-ca-file, --redis-cert-file, --redis-key-file and --redis-server-name: need --redis-tls or rediss://")
	check(o.PoolSize >= 1, "--redis-pool-size %d: must be at least 1", o.PoolSize)
	check(o.DialTimeout >= time.Millisecond, "--redis-dial-timeout %s: must be at least 1ms", o.DialTimeout)
	check(o.Timeout >= time.Millisecond, "--redis-timeout %s: must be at least 1ms", o.Timeout)
	return errors.Join(errs...)
}

// target is what URL and the other options say together.
type target struct {
	network   string // tcp or unix
	addresses []string
	username  string
	database  int
	tls       bool
	fromURL   struct {
		username string
		database int
	}
}

func (o *Options) target() (target, error) {
	t := target{network: "tcp", addresses: o.Addresses, username: o.Username, database: o.Database, tls: o.TLS}
	if o.URL == "" {
		return t, nil
	}
	// No error may print the URL: it may have a password all the same.
	u, err := url.Parse(o.URL)
	if err != nil {
		return t, errors.New("--redis-url: is not a URL")
	}
	if _, has := u.User.Password(); has {
		return t, errors.New("--redis-url: must have no password; it belongs into --redis-password-file")
	}
	query := u.Query()
	if u.Scheme == "unix" {
		query.Del("db")
	}
	if len(query) > 0 || u.Fragment != "" {
		return t, errors.New("--redis-url: must have no query but the db of a unix socket")
	}
	parsed, err := redis.ParseURL(o.URL)
	if err != nil {
		return t, fmt.Errorf("--redis-url: must be redis://host:port/database, rediss://host:port/database or unix:///path?db=database: %w", err)
	}
	if parsed.Network == "tcp" && !isAddress(parsed.Addr) {
		return t, fmt.Errorf("--redis-url: must have a host and a port from 1 to 65535, not %q", parsed.Addr)
	}
	t.network, t.addresses = parsed.Network, []string{parsed.Addr}
	t.fromURL.username, t.fromURL.database = parsed.Username, parsed.DB
	t.tls = t.tls || parsed.TLSConfig != nil
	t.username, t.database = cmp.Or(t.username, parsed.Username), cmp.Or(t.database, parsed.DB)
	return t, nil
}

func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && host != "" && n >= 1 && n <= 65535
}
