package redistest

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Options say what a Redis server is like. The zero value is a server without
// persistence, password or TLS.
type Options struct {
	// Persist writes every command to an append-only file in the server's
	// directory, from which Restart recovers.
	Persist bool
	// Fsync is Redis' appendfsync with Persist: always, everysec or no.
	// Empty is always: nothing that was answered is lost.
	Fsync string
	// Password is that of the default user; empty for none. In a Sentinel
	// topology it is the sentinels' own as well.
	Password string
	// Users exist beside the default user.
	Users []User
	// TLS serves by TLS alone, with a CA made for this server or topology,
	// and demands a client certificate of that CA: see Server.Certs.
	TLS bool
	// Lines are put at the end of redis.conf as they are.
	Lines []string

	certs *Certs // shared by the servers of a topology
}

// User is an ACL user.
type User struct {
	Name     string
	Password string
	// Rules are in Redis' words, as in "~eventquota:* +@connection +evalsha".
	Rules string
}

// connection is what makes any kind of server reachable.
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

// data is the configuration of a server that keeps data.
func data(o *Options, port int) []string {
	lines := append(o.connection(port), `save ""`, "maxmemory-policy noeviction",
		// A replica is in sync within a second, not after the usual 5.
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

// withCerts makes the certificates that the options need, once.
func (o Options) withCerts(dir string) (Options, error) {
	if !o.TLS || o.certs != nil {
		return o, nil
	}
	var err error
	o.certs, err = NewCerts(filepath.Join(dir, "tls"))
	return o, err
}

// quote writes a value for redis.conf.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
