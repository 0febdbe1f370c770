package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy logs the body of every Event write and nothing else. It omits all stages except ResponseComplete, so a
// request is one line.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Request
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: "", resources: [events]}
  - {group: events.k8s.io, resources: [events]}
- level: None
`

// admissionConfiguration points the EventRateLimit plugin to its configuration.
const admissionConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  path: %q
`

// balancesByRequest reports whether an API server of the given version balances each request over the endpoints of a
// Service, and not only each connection. It matters only if the API server routes to endpoints itself: kube-proxy, as
// in most clusters, balances connections.
func balancesByRequest(apiServer string) bool {
	return version.MustParseSemantic(apiServer).AtLeast(version.MajorMinor(1, 37))
}

// configureAPIServer sets the flags for opts, and writes the files that they name into dir. auditLog is the path of
// the audit log. If it is empty, there is none.
func configureAPIServer(flags *envtest.Arguments, version string, opts Options, dir, auditLog string) error {
	// Neither needs an external route, which a sandbox may lack.
	flags.Set("advertise-address", "127.0.0.1")
	flags.Set("endpoint-reconciler-type", "none")
	// Otherwise a client's open watch delays the shutdown until the server is killed.
	flags.Set("shutdown-watch-termination-grace-period", "1s")
	if auditLog != "" {
		policy, err := writeFile(dir, "audit-policy.yaml", auditPolicy)
		if err != nil {
			return err
		}
		flags.Set("audit-policy-file", policy)
		flags.Set("audit-log-path", auditLog)
		// Batch mode may drop and reorder.
		flags.Set("audit-log-mode", "blocking")
		// In megabytes. The default of 0 means 100, after which a second file begins.
		flags.Set("audit-log-maxsize", "1000000")
	}
	if opts.Services {
		flags.Set("enable-aggregator-routing", "true")
		if balancesByRequest(version) {
			flags.Set("feature-gates", "WebhookRoundTripLoadBalancing=false")
		}
	}
	if opts.EventTTL != 0 {
		flags.Set("event-ttl", opts.EventTTL.Truncate(time.Second).String())
	}
	if opts.EventRateLimit != "" {
		limits, err := writeFile(dir, "event-rate-limit.yaml", opts.EventRateLimit)
		if err != nil {
			return err
		}
		admission, err := writeFile(dir, "admission.yaml", fmt.Sprintf(admissionConfiguration, limits))
		if err != nil {
			return err
		}
		flags.Set("enable-admission-plugins", "EventRateLimit")
		flags.Set("admission-control-config-file", admission)
	}
	for name, value := range opts.APIServerFlags {
		flags.Set(name, value)
	}
	return nil
}

// writeFile writes a file that only this user may read, and returns its path.
func writeFile(dir, name, content string) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}
