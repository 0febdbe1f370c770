package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	// eventRate is the number of Events a second while eventquota is uninstalled.
	eventRate = 100
	// eventWriters is how many clients write them, each about an object of its own.
	eventWriters = 16
)

// TestUninstallFailsNoCallAndLosesNoCount uninstalls eventquota in the documented order while clients write Events. Until then, these
// are stored, merged or dropped; afterwards all are stored.
func TestUninstallFailsNoCallAndLosesNoCount(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	e := newSetEnv(t, 3, append(shippedFlags(shippedDeployment(t)),
		"--redis-addresses="+redis.Addr(),
		"--store-deadline=1s", // a busy machine must not make Redis unavailable
		"--calls-per-connection=20",
	)...)
	begun := time.Now()
	busy := e.namespace("busy")
	end := e.createEvents(busy)
	e.eventually("each replica has admitted, merged and dropped Events", func() bool {
		for _, r := range e.set.Replicas {
			decided, err := r.Decisions(e.Context(), "outcome")
			e.must(err)
			if decided["admit"] == 0 || decided["merge"] == 0 || decided["drop"] == 0 {
				return false
			}
		}
		return true
	})

	e.deleteConfigurations()
	e.deleteDeployment()
	reported := e.reportedByObject()
	e.deleteManifests("../../manifests/base")
	e.eventually("Events are stored without eventquota", func() bool {
		now := e.reportedByObject()
		for object, n := range reported {
			// The API server itself may have written Events about its Service, and writes no more.
			if object.Namespace == busy && now[object] == n {
				return false
			}
		}
		return true
	})
	e.must(end())
	lasted := time.Since(begun)
	e.checkNoneFailed()
	sent := e.audit().PerObject()
	t.Logf("%d occurrences about %d objects reached the API server in %s: %.0f a second",
		e.audit().Occurrences(), len(sent), lasted.Round(time.Second), float64(e.audit().Occurrences())/lasted.Seconds())
	if diff := cmp.Diff(sent, e.reportedByObject()); diff != "" {
		t.Errorf("occurrences after the uninstall (-sent +reported):\n%s", diff)
	}
	e.checkKeysExpire(redis)
}

// createEvents runs clients that together create eventRate Events a second until end is called. Every other Event of a client repeats
// the same content, and those between have many reasons, of which most are dropped. Each has a name of its own: a client that counts
// on under a refused name counts its Events again without eventquota.
func (e *setEnv) createEvents(namespace string) (end func() error) {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	events, limiter := e.client.CoreV1().Events(namespace), rate.NewLimiter(eventRate, 1)
	var writers errgroup.Group
	for i := range eventWriters {
		writers.Go(func() error {
			pod := fmt.Sprint("web-", i)
			for n := 0; limiter.Wait(ctx) == nil; n++ {
				event := coreEvent(namespace, fmt.Sprint(pod, "-", n), pod, "back-off")
				if n%2 == 1 {
					event.Reason = fmt.Sprint("Reason", n)
				}
				_, err := events.Create(e.Context(), event, metav1.CreateOptions{})
				if err != nil && eventtest.Refusal(err) == "" {
					e.Errorf("create Event %s: %v", event.Name, err) // now, as others wait for more Events of this writer
					return err
				}
			}
			return nil
		})
	}
	return func() error {
		cancel()
		return writers.Wait()
	}
}

// deleteConfigurations deletes the webhook configurations, so that the API server stops calling the webhook.
func (e *env) deleteConfigurations() {
	e.Helper()
	for kind, name := range configurations() {
		e.kubectl("", "delete", kind, name)
	}
}

// deleteDeployment deletes the Deployment and stops all replicas. No controller runs here that would stop them and then remove the
// finalizer of the Deployment, so kubectl must not wait for it.
func (e *setEnv) deleteDeployment() {
	e.Helper()
	deployment := []string{"-n", cluster.ServiceNamespace, "deployment", cluster.ServiceName}
	e.kubectl("", append([]string{"delete", "--cascade=foreground", "--wait=false"}, deployment...)...)
	var stops errgroup.Group
	for _, r := range e.set.Replicas {
		stops.Go(r.Stop)
	}
	for i := range e.set.Replicas {
		e.must(e.set.SetReady(e.Context(), i, false))
	}
	e.must(stops.Wait())
	e.kubectl("", append([]string{"patch", "-p", `{"metadata":{"finalizers":null}}`}, deployment...)...)
}

// deleteManifests deletes the objects of a kustomization with kubectl. It checks that none of eventquota remains but in its namespace,
// which is being deleted.
func (e *env) deleteManifests(kustomization string) {
	e.Helper()
	// No controller runs here that would empty the namespace, so kubectl must not wait for it.
	e.kubectl("", "delete", "--ignore-not-found", "--wait=false", "-k", kustomization)
	e.eventually("all objects except the namespace are deleted", func() bool {
		remaining := e.kubectl("", "get", "--ignore-not-found", "-o", "name", "-k", kustomization)
		return strings.TrimSpace(remaining) == "namespace/"+cluster.ServiceNamespace
	})
	ending, err := e.client.CoreV1().Namespaces().Get(e.Context(), cluster.ServiceNamespace, metav1.GetOptions{})
	e.must(err)
	if ending.DeletionTimestamp == nil || len(ending.Finalizers) > 0 {
		e.Errorf("the namespace has deletionTimestamp %v and finalizers %q, want a deletionTimestamp and no finalizer", ending.DeletionTimestamp, ending.Finalizers)
	}
	const columns = `jsonpath={range .items[*]}{.metadata.namespace}/{.kind}/{.metadata.name} {.metadata.labels}{"\n"}{end}`
	var objects string
	e.eventually("all kinds can be listed", func() bool { // the API server still names a deleted kind for a moment
		kinds := strings.Fields(e.kubectl("", "api-resources", "--verbs=list", "--no-headers", "-o", "name"))
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, "events") }) // Events stay, and expire
		objects, _, err = e.cluster.Kubectl(e.Context(), "", "get", strings.Join(kinds, ","), "-A", "-o", columns)
		return err == nil
	})
	for object := range strings.Lines(objects) {
		if strings.Contains(object, "eventquota") && !strings.HasPrefix(object, cluster.ServiceNamespace+"/") && !strings.HasPrefix(object, "/Namespace/") {
			e.Errorf("after the uninstall remains %s", object)
		}
	}
}

// checkKeysExpire checks that no key stays in Redis.
func (e *setEnv) checkKeysExpire(redis *redistest.Server) {
	e.Helper()
	keys, err := redis.Client().Keys(e.Context(), "*").Result()
	e.must(err)
	e.Logf("Redis has %d keys", len(keys))
	for _, key := range keys {
		if ttl := redis.Client().PTTL(e.Context(), key).Val(); ttl <= 0 {
			e.Errorf("key %s of Redis does not expire", key)
		}
	}
}
