package certmanager

import (
	"context"
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
)

const (
	// replicas is the number of replicas, each with its own volume.
	replicas = 3
	// callsBetweenUpdates is the minimum of calls between the updates of two volumes with a renewed certificate. In a
	// cluster, about a minute is between them.
	callsBetweenUpdates = 100
	// callsPerConnection is the average number of calls on one connection. Only a new connection uses the current
	// certificate.
	callsPerConnection = 10
	// newConnections is a number of calls to a replica that needs new connections. The API server reuses some: one for each
	// concurrent call of each phase.
	newConnections = 15 * callsPerConnection
)

// TestCertManagerRenewalDuringStorm checks the shipped manifests for cert-manager. Its controllers issue the certificate, and
// its cainjector sets caBundle. No call fails when the certificate is renewed, or when its CA is renewed too.
func TestCertManagerRenewalDuringStorm(t *testing.T) {
	if !cluster.RunIsolated(t, func(ctx context.Context) error { _, err := replica.Build(ctx); return err }) {
		return
	}
	redis := redistest.Start(t, redistest.Options{})
	e := newEnv(t)
	e.must(shipped.Apply(t.Context(), e.cluster.Config, e.definitions()))
	objects, err := shipped.Objects("overlays/cert-manager")
	e.must(err)
	e.must(shipped.Apply(t.Context(), e.cluster.Config, objects))
	startControllers(t, e.cluster)

	issued := e.waitIssued(certificate, "")
	for _, v := range e.volumes {
		e.must(v.write(issued.Data))
	}
	e.eventually("the API server is told the CA", func() bool { return e.trusted(issued.Data["ca.crt"]) })
	path, err := replica.Build(t.Context())
	e.must(err)
	e.set, err = replica.StartSet(t.Context(), e.cluster, path, replicas,
		"--cert-dir="+e.volumes[0].dir, "--redis-addresses="+redis.Addr(),
		fmt.Sprint("--calls-per-connection=", callsPerConnection),
	)
	e.must(err)
	t.Cleanup(func() {
		for i, r := range e.set.Replicas {
			if t.Failed() {
				t.Logf("log of replica %d:\n%s", i, r.Log())
			}
		}
		e.set.Close()
	})
	for i := 1; i < replicas; i++ {
		e.must(e.set.Kill(t.Context(), i))
		e.must(e.set.Restart(t.Context(), i, "--cert-dir="+e.volumes[i].dir))
	}
	for i := range replicas {
		e.waitServes(i, issued)
	}

	before, err := e.cluster.WebhookFailures(t.Context())
	e.must(err)
	end := e.storm()
	e.eventually("every replica answers", func() bool { return e.allAnsweredSince(make([]int64, replicas)) })
	for _, also := range [][]string{nil, {caCertificate}} {
		issued = e.waitRenewed(issued, also...)
		for _, v := range e.volumes {
			e.waitForCalls(callsBetweenUpdates)
			e.must(v.write(issued.Data))
		}
		for i := range replicas {
			e.waitServes(i, issued)
		}
		served := e.decisions()
		e.eventually("every replica answers with the renewed certificate", func() bool { return e.allAnsweredSince(served) })
	}
	e.must(end())
	after, err := e.cluster.WebhookFailures(t.Context())
	if err != nil || after != before {
		t.Errorf("%d calls failed during the renewals (%v), want none", after-before, err)
	}
}
