package redistest

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Options are the settings of a Redis server. The zero value is a server without persistence, password or TLS.
type Options struct {
	// Persist writes every command to an append-only file in the server's directory, which Restart loads.
	Persist bool
	// Fsync is appendfsync of Redis with Persist: always, everysec or no. Empty means always: no acknowledged write is lost.
	Fsync string
	// Password is the default user's; empty for none. With Sentinel it is also that of the sentinels.
	Password string
	// Users are ACL users in addition to the default user.
	Users []User
	// TLS makes the server accept only TLS, with a CA made for this server or topology. Clients need a certificate of that
	// CA, see Server.Certs.
	TLS bool
	// Lines are appended to redis.conf.
	Lines []string

	certs *Certs // shared by the servers of a topology
}

// User is an ACL user.
type User struct {
	Name     string
	Password string
	// Rules are ACL rules in the syntax of Redis, such as "~eventquota:* +@connection +evalsha".
	Rules string
}

// connection returns the lines of redis.conf about connections, for any kind of server.
func (o *Options) connection(port int) []string {
	lines := []string{"bind 127.0.0.1", "protected-mode no", "daemonize no"}
	if o.Password != "" {
		lines = append(lines, "requirepass "+quote(o.Password))
	}
	if !o.TLS {
		return append(lines, fmt.Sprintf("port %d", port))
	}
	return append(lines,
		"port 0", fmt.Sprintf("tls-port %d", port),
		"tls-ca-cert-file "+quote(o.certs.CAFile),
		"tls-cert-file "+quote(o.certs.ServerCertFile),
		"tls-key-file "+quote(o.certs.ServerKeyFile),
		"tls-auth-clients yes", "tls-replication yes", "tls-cluster yes",
	)
}

// data returns the configuration of a server that has data.
func data(o *Options, port int) []string {
	lines := append(o.connection(port), `save ""`, "maxmemory-policy noeviction",
		// A replica is in sync within a second, not after the default 5.
		"repl-diskless-sync-delay 0", "repl-ping-replica-period 1")
	if o.Password != "" {
		lines = append(lines, "masterauth "+quote(o.Password))
	}
	for _, u := range o.Users {
		lines = append(lines, fmt.Sprintf("user %s on >%s %s", u.Name, u.Password, u.Rules))
	}
	if o.Persist {
		fsync := o.Fsync
		if fsync == "" {
			fsync = "always"
		}
		lines = append(lines, "appendonly yes", "appendfsync "+fsync)
	}
	return append(lines, o.Lines...)
}

// withCerts returns o with certificates, which it creates if TLS needs them and there are none.
func (o Options) withCerts(dir string) (Options, error) {
	if !o.TLS || o.certs != nil {
		return o, nil
	}
	var err error
	o.certs, err = NewCerts(filepath.Join(dir, "tls"))
	return o, err
}

// quote quotes a value for redis.conf.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
