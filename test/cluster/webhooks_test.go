package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Nothing listens where the webhooks are said to be: the calls are seen nevertheless,
// they fail, and the writes pass.
func TestWebhooksThatDoNotAnswer(t *testing.T) {
	c := ForTest(t, Options{NoAudit: true})
	port, err := freePort(t.Context())
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
	webhooks := Webhooks{URL: "https://127.0.0.1:" + port, ExemptUser: "settler", Mutating: true, Validating: true}
	// look makes an Event and changes it, and returns which calls that caused.
	look := func(name string, client kubernetes.Interface) map[string]WebhookCalls {
		t.Helper()
		before, err := c.WebhookCalls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Events("default").Create(t.Context(), coreEvent(name), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := client.CoreV1().Events("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
		after, err := c.WebhookCalls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range before {
			a := after[name]
			after[name] = WebhookCalls{
				Total: a.Total - b.Total, Denied: a.Denied - b.Denied, Excluded: a.Excluded - b.Excluded,
				FailedOpen: a.FailedOpen - b.FailedOpen, FailedClosed: a.FailedClosed - b.FailedClosed,
			}
		}
		return after
	}

	if err := c.InstallWebhooks(t.Context(), webhooks); err != nil {
		t.Fatal(err)
	}
	if err := c.InstallWebhooks(t.Context(), webhooks); err == nil {
		t.Error("installed the webhooks twice")
	}
	failed, excluded := WebhookCalls{Total: 1, FailedOpen: 1}, WebhookCalls{Excluded: 1}
	want := map[string]WebhookCalls{MutatingWebhook: failed, ValidatingWebhook: failed}
	if diff := cmp.Diff(want, look("anybody", c.client)); diff != "" {
		t.Errorf("calls for a CREATE and a PATCH of anybody (-want +got):\n%s", diff)
	}
	want = map[string]WebhookCalls{MutatingWebhook: excluded, ValidatingWebhook: excluded}
	if diff := cmp.Diff(want, look("exempt", settler)); diff != "" {
		t.Errorf("calls for a CREATE and a PATCH of the exempt user (-want +got):\n%s", diff)
	}
	if failures, err := c.WebhookFailures(t.Context()); err != nil || failures < 2 {
		t.Errorf("got %d failures (%v), want 2 or more", failures, err)
	}

	for range 2 { // the second finds nothing to remove
		if err := c.RemoveWebhooks(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want = map[string]WebhookCalls{MutatingWebhook: {}, ValidatingWebhook: {}}
	if diff := cmp.Diff(want, look("removed", c.client)); diff != "" {
		t.Errorf("calls after the removal (-want +got):\n%s", diff)
	}
}
