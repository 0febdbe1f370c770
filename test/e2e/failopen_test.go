package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/cluster"
)

const (
	failOpenWriters = 8
	// writeSlack bounds the time of a write beyond its webhook calls, on a busy machine. It is shorter than the API
	// server's default timeout of 10 s, so the test fails if the shipped timeout is missing.
	writeSlack = 8 * time.Second
)

// writeTimes holds the durations of successful writes, by kind of write.
type writeTimes struct {
	mu     sync.Mutex
	byKind map[string][]time.Duration
}

// measure runs a write and records its duration if it succeeds.
func (w *writeTimes) measure(kind string, write func() error) error {
	begun := time.Now()
	if err := write(); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byKind[kind] = append(w.byKind[kind], time.Since(begun))
	return nil
}

// checkFailOpen checks that Events are created and patched at the cost of one timeout per call, and that no other
// write calls the webhook.
func (e *noWebhookEnv) checkFailOpen(namespace string, hangs bool) {
	e.Helper()
	before := e.calls()
	w := &writeTimes{byKind: map[string][]time.Duration{}}
	var events errgroup.Group
	for i := range failOpenWriters {
		event := coreEvent(namespace, "", fmt.Sprint("web-", i), "back-off")
		event.Name = strings.ToLower(fmt.Sprintf("web-%d-%d", time.Now().UnixNano(), i))
		events.Go(func() error {
			err := w.measure("create an Event", func() error {
				_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
				return err
			})
			if err != nil {
				return err
			}
			return w.measure("patch an Event", func() error {
				got, err := e.client.CoreV1().Events(namespace).Patch(e.Context(), event.Name,
					types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
				if err == nil && got.Count != 2 {
					err = fmt.Errorf("stored a count of %d, want 2", got.Count)
				}
				return err
			})
		})
	}
	over := make(chan error, 1)
	go func() { over <- events.Wait() }()
	for done := false; !done; {
		e.must(e.writeOthers(w, namespace))
		select {
		case err := <-over:
			e.must(err)
			done = true
		default:
		}
	}

	for kind, calls := range map[string]int{"create an Event": 1, "patch an Event": 1} {
		took, timeouts := w.byKind[kind], time.Duration(calls)*webhookTimeout
		fastest, slowest := slices.Min(took), slices.Max(took)
		e.Logf("%s: %s to %s", kind, fastest.Round(time.Millisecond), slowest.Round(time.Millisecond))
		if slowest > timeouts+writeSlack {
			e.Errorf("%s: took up to %s, want at most %d timeouts of %s", kind, slowest, calls, webhookTimeout)
		}
		if hangs && fastest < timeouts {
			e.Errorf("%s: took %s, want at least %d timeouts of %s, because the endpoint hangs", kind, fastest, calls, webhookTimeout)
		}
		delete(w.byKind, kind)
	}
	for kind, took := range w.byKind {
		e.Logf("%s, %d times: at most %s", kind, len(took), slices.Max(took).Round(time.Millisecond))
	}
	after := e.calls()
	for webhook, want := range map[string]int64{cluster.MutatingWebhook: failOpenWriters, cluster.ValidatingWebhook: failOpenWriters} {
		made, failed := after[webhook].Total-before[webhook].Total, after[webhook].FailedOpen-before[webhook].FailedOpen
		if made != want || failed != want {
			e.Errorf("%s: %d calls were made and %d failed open, want %d of each, one per Event", webhook, made, failed, want)
		}
	}
}

// writeOthers makes writes that must not call the webhook, among them an Event in the webhook's own namespace.
func (e *noWebhookEnv) writeOthers(w *writeTimes, namespace string) error {
	core, leases := e.client.CoreV1(), e.client.CoordinationV1().Leases(namespace)
	meta, deletion := metav1.ObjectMeta{GenerateName: "other-"}, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: "pause"}}}}
	write := func(kind string, create, update func() error) error {
		if err := w.measure("create a "+kind, create); err != nil {
			return err
		}
		return w.measure("change a "+kind, update)
	}
	configMap, lease := &corev1.ConfigMap{ObjectMeta: meta}, &coordinationv1.Lease{ObjectMeta: meta}
	var err error
	if err := write("pod", func() error {
		pod, err = core.Pods(namespace).Create(e.Context(), pod, metav1.CreateOptions{})
		return err
	}, func() error { return core.Pods(namespace).Delete(e.Context(), pod.Name, deletion) }); err != nil {
		return err
	}
	if err := write("ConfigMap", func() error {
		configMap, err = core.ConfigMaps(namespace).Create(e.Context(), configMap, metav1.CreateOptions{})
		return err
	}, func() error {
		configMap.Data = map[string]string{"changed": "true"}
		_, err := core.ConfigMaps(namespace).Update(e.Context(), configMap, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := write("Lease", func() error {
		lease, err = leases.Create(e.Context(), lease, metav1.CreateOptions{})
		return err
	}, func() error {
		lease.Spec.HolderIdentity = new("me")
		_, err := leases.Update(e.Context(), lease, metav1.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	own := coreEvent(cluster.ServiceNamespace, "", cluster.ServiceName, "about the webhook itself")
	own.GenerateName = "own-"
	return w.measure("create an Event of the webhook's namespace", func() error {
		_, err := core.Events(cluster.ServiceNamespace).Create(e.Context(), own, metav1.CreateOptions{})
		return err
	})
}

// probe makes the API server call the webhook by dry runs, which change nothing.
func (e *noWebhookEnv) probe(namespace string) {
	e.Helper()
	events, dryRun := e.client.CoreV1().Events(namespace), []string{metav1.DryRunAll}
	_, err := events.Create(e.Context(), coreEvent(namespace, "probe", "web", "back-off"), metav1.CreateOptions{DryRun: dryRun})
	e.must(err)
	_, err = events.Patch(e.Context(), "probed", types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{DryRun: dryRun})
	e.must(err)
}

// calls returns the API server's calls so far, by webhook.
func (e *noWebhookEnv) calls() map[string]cluster.WebhookCalls {
	e.Helper()
	calls, err := e.cluster.WebhookCalls(e.Context())
	e.must(err)
	return calls
}
