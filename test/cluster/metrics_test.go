package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/eventtest"
	"github.com/eventquota/eventquota/test/ports"
)

// checkMetrics compares the measurements of the cluster with the requests of a client, in both APIs.
func (c *Cluster) checkMetrics(t *testing.T) {
	config, _, err := c.User("reporter", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	core, events := client.CoreV1().Events("default"), client.EventsV1().Events("default")
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	patch := func(name, body string) error {
		_, err := core.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}

	for _, step := range []struct {
		name   string
		do     func() error
		writes int64  // Event writes that reach etcd
		reason string // reason of the refusal
	}{
		{name: "create in core/v1", writes: 1, do: func() error {
			_, err := core.Create(t.Context(), eventtest.Core(metav1.NamespaceDefault, "legacy"), metav1.CreateOptions{})
			return err
		}},
		{name: "create an existing name", writes: 1, reason: "AlreadyExists", do: func() error {
			_, err := core.Create(t.Context(), eventtest.Core(metav1.NamespaceDefault, "legacy"), metav1.CreateOptions{})
			return err
		}},
		{name: "create as a dry run", writes: 0, do: func() error {
			_, err := core.Create(t.Context(), eventtest.Core(metav1.NamespaceDefault, "dry"), dryRun)
			return err
		}},
		{name: "patch", writes: 1, do: func() error { return patch("legacy", `{"count": 7}`) }},
		{name: "patch without a change", writes: 0, do: func() error { return patch("legacy", `{"count": 7}`) }},
		{name: "patch a missing Event", writes: 0, reason: "NotFound", do: func() error { return patch("missing", `{"count": 3}`) }},
		{name: "create in events.k8s.io/v1", writes: 1, do: func() error {
			_, err := events.Create(t.Context(), eventtest.New(metav1.NamespaceDefault, "modern"), metav1.CreateOptions{})
			return err
		}},
		{name: "create an invalid Event", writes: 0, reason: "Invalid", do: func() error {
			invalid := eventtest.New(metav1.NamespaceDefault, "invalid")
			invalid.Action = ""
			_, err := events.Create(t.Context(), invalid, metav1.CreateOptions{})
			return err
		}},
		{name: "patch the series", writes: 1, do: func() error {
			_, err := events.Patch(t.Context(), "modern", types.StrategicMergePatchType,
				[]byte(`{"series": {"count": 5, "lastObservedTime": "2030-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{})
			return err
		}},
		{name: "delete", writes: 1, do: func() error {
			return core.Delete(t.Context(), "modern", metav1.DeleteOptions{})
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			writes, proposals := c.readCounts(t)
			if err := step.do(); string(apierrors.ReasonForError(err)) != step.reason {
				t.Errorf("got %v, want reason %q", err, step.reason)
			}
			writesAfter, proposalsAfter := c.readCounts(t)
			if got := writesAfter - writes; got != step.writes {
				t.Errorf("got %d Event writes, want %d", got, step.writes)
			}
			if got := proposalsAfter - proposals; got < step.writes {
				t.Errorf("got %d proposals, want at least %d", got, step.writes)
			}
		})
	}

	audit, err := ReadAudit(c.AuditLog, AuditOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// 7 of legacy, 3 of missing, 5 of modern, 1 of invalid, none of dry.
	pod := Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web-0", UID: "1"}
	if diff := cmp.Diff(map[Object]int64{pod: 13, {}: 3}, audit.PerObject()); diff != "" {
		t.Errorf("occurrences by object (-want +got):\n%s", diff)
	}
	requests := map[Request]int64{}
	for request, n := range audit.Requests {
		request.UserAgent = ""
		requests[request] += n
	}
	if diff := cmp.Diff(map[Request]int64{
		{Verb: "create", Code: 201, User: "reporter"}: 2,
		{Verb: "create", Code: 409, User: "reporter"}: 1,
		{Verb: "create", Code: 422, User: "reporter"}: 1,
		{Verb: "patch", Code: 200, User: "reporter"}:  3,
		{Verb: "patch", Code: 404, User: "reporter"}:  1,
		{Verb: "delete", Code: 200, User: "reporter"}: 1,
	}, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// readCounts returns the numbers of Event writes and proposals so far.
func (c *Cluster) readCounts(t *testing.T) (writes, proposals int64) {
	t.Helper()
	writes, err := c.EventWrites(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proposals, err = c.Proposals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return writes, proposals
}

// checkWebhookCalls installs webhooks at an address where no process listens. The calls must be counted and fail, and
// the writes must succeed.
func (c *Cluster) checkWebhookCalls(t *testing.T) {
	port, err := ports.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := c.User("settler", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	settler, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = c.InstallWebhooks(t.Context(), Webhooks{URL: "https://" + ports.Address(port), ExemptUser: "settler", Mutating: true, Validating: true})
	if err != nil {
		t.Fatal(err)
	}
	failed, excluded := WebhookCalls{Total: 1, FailedOpen: 1}, WebhookCalls{Excluded: 1}
	c.checkCalls(t, "anybody", c.client, failed)
	c.checkCalls(t, "exempt", settler, excluded)
	if failures, err := c.WebhookFailures(t.Context()); err != nil || failures < 2 {
		t.Errorf("got %d failures (%v), want at least 2", failures, err)
	}
	if logged := c.WebhookErrors(); !strings.Contains(logged, "connection refused") {
		t.Errorf("the API server logged %q about failed calls, want the reason", logged)
	}
	for range 2 { // the second finds nothing to remove
		if err := c.RemoveWebhooks(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.checkCalls(t, "removed", c.client, WebhookCalls{})
}

// checkCalls checks that creating and patching an Event causes the expected calls of each webhook.
func (c *Cluster) checkCalls(t *testing.T, name string, client kubernetes.Interface, want WebhookCalls) {
	t.Helper()
	before, err := c.WebhookCalls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Events("default").Create(t.Context(), eventtest.Core(metav1.NamespaceDefault, name), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.CoreV1().Events("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	after, err := c.WebhookCalls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, webhook := range []string{MutatingWebhook, ValidatingWebhook} {
		b, a := before[webhook], after[webhook]
		got := WebhookCalls{
			Total: a.Total - b.Total, Denied: a.Denied - b.Denied, Excluded: a.Excluded - b.Excluded,
			FailedOpen: a.FailedOpen - b.FailedOpen, FailedClosed: a.FailedClosed - b.FailedClosed,
		}
		if got != want {
			t.Errorf("a CREATE and a PATCH of %s caused calls of %s: %+v, want %+v", name, webhook, got, want)
		}
	}
}
