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
)

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
