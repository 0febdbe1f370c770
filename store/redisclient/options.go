package redisclient

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// Options are the settings of a client: addresses, credentials, TLS and timeout.
type Options struct {
	// Addresses are host:port: one server, sentinels with SentinelMaster, or any servers of a Redis Cluster with
	// Cluster.
	Addresses      []string
	SentinelMaster string
	Cluster        bool

	Username string
	// PasswordFile is read for each new connection. A newline at its end is ignored.
	PasswordFile         string
	SentinelUsername     string
	SentinelPasswordFile string
	// Database is 0 or more; 0 with Cluster.
	Database int

	TLS bool
	// CAFile, CertFile and KeyFile are PEM files, read for each new connection. An empty CAFile means the system's CAs. The
	// other two are set together.
	CAFile, CertFile, KeyFile string
	// ServerName is the name in the server's certificate; empty for the host name of the address.
	ServerName string

	// Timeout bounds making a connection, and each answer, unless the caller's context has an
	// earlier deadline. At least 1ms.
	Timeout time.Duration
}

// DefaultOptions returns Options without a server.
func DefaultOptions() *Options { return &Options{Timeout: time.Second} }

// AddFlags adds a flag for each option, with its present value as default.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Addresses, "redis-addresses", o.Addresses, "Redis as host:port; several for Sentinel or a Cluster; empty to keep all state in memory")
	f.StringVar(&o.SentinelMaster, "redis-sentinel-master", o.SentinelMaster, "name of the master that sentinels know; the addresses are then those of sentinels")
	f.BoolVar(&o.Cluster, "redis-cluster", o.Cluster, "whether the addresses are servers of a Redis Cluster; any of them will do")
	f.StringVar(&o.Username, "redis-username", o.Username, "ACL user at Redis; empty for the default user")
	f.StringVar(&o.PasswordFile, "redis-password-file", o.PasswordFile, "file with the password at Redis, read again for each new connection; empty for none")
	f.StringVar(&o.SentinelUsername, "redis-sentinel-username", o.SentinelUsername, "ACL user at the sentinels; empty for the default user")
	f.StringVar(&o.SentinelPasswordFile, "redis-sentinel-password-file", o.SentinelPasswordFile, "file with the password at the sentinels, read again for each new connection; empty for none")
	f.IntVar(&o.Database, "redis-database", o.Database, "number of the database, 0 or more; 0 in a Cluster")
	f.BoolVar(&o.TLS, "redis-tls", o.TLS, "whether to connect by TLS")
	f.StringVar(&o.CAFile, "redis-ca-file", o.CAFile, "PEM file of the CAs that may sign Redis' certificates, read again for each new connection; empty for the system's")
	f.StringVar(&o.CertFile, "redis-cert-file", o.CertFile, "PEM file of the client certificate, read again for each new connection; empty for none")
	f.StringVar(&o.KeyFile, "redis-key-file", o.KeyFile, "PEM file of the client certificate's key, read again for each new connection; empty for none")
	f.StringVar(&o.ServerName, "redis-server-name", o.ServerName, "name that Redis' certificates must have; empty for the host connected to")
	f.DurationVar(&o.Timeout, "redis-timeout", o.Timeout, "how long a connection or an answer may take without an earlier deadline, at least 1ms")
}

// Validate reports every option that is missing, out of range or contradicts another one, by its
// flag. It opens no file and does not connect.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(o.Addresses) > 0, "--redis-addresses: must be set")
	for _, a := range o.Addresses {
		check(isAddress(a), "--redis-addresses %q: must be host:port with a port from 1 to 65535", a)
	}
	check(len(o.Addresses) < 2 || o.Cluster || o.SentinelMaster != "", "--redis-addresses: more than one needs --redis-sentinel-master or --redis-cluster")
	check(!o.Cluster || o.SentinelMaster == "", "--redis-cluster and --redis-sentinel-master: only one may be set")
	check(o.Username == "" || o.PasswordFile != "", "--redis-password-file: must be set for --redis-username")
	check(o.SentinelMaster != "" || o.SentinelUsername == "" && o.SentinelPasswordFile == "",
		"--redis-sentinel-username and --redis-sentinel-password-file: need --redis-sentinel-master")
	check(o.SentinelUsername == "" || o.SentinelPasswordFile != "", "--redis-sentinel-password-file: must be set for --redis-sentinel-username")
	check(o.Database >= 0, "--redis-database %d: must be 0 or more", o.Database)
	check(o.Database == 0 || !o.Cluster, "--redis-database %d: must be 0 with --redis-cluster", o.Database)
	check((o.CertFile == "") == (o.KeyFile == ""), "--redis-cert-file and --redis-key-file: must be set both or not at all")
	check(o.TLS || o.CAFile+o.CertFile+o.KeyFile+o.ServerName == "",
		"--redis-ca-file, --redis-cert-file, --redis-key-file and --redis-server-name: need --redis-tls")
	check(o.Timeout >= time.Millisecond, "--redis-timeout %s: must be at least 1ms", o.Timeout)
	return errors.Join(errs...)
}

func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && host != "" && n >= 1 && n <= 65535
}
