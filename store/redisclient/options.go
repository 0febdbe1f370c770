package redisclient

import (
	"time"

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
