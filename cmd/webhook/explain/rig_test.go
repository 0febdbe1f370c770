package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/cli"
)

// explainRig is a fake cluster with a webhook that has decided Events. It has an API server, and a replica at an endpoint.
type explainRig struct {
	t        *testing.T
	now      time.Time
	user     string // the writer of Events; empty for the one that explain assumes
	policies string // YAML; if empty, the cluster has no CRDs
	gate     *admission.Gate
	events   []corev1.Event
	server   *httptest.Server
	endpoint *httptest.Server
}

// peekStore is a store whose state can be read.
type peekStore interface {
	store.Store
	Peeker
}

func newExplainRig(t *testing.T, policies, name string, decides peekStore) *explainRig {
	t.Helper()
	r := &explainRig{t: t, now: time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC), policies: policies}
	files, err := policyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range r.documents() {
		if err := files.Decode(document); err != nil {
			t.Fatal(err)
		}
	}
	clock := func() time.Time { return r.now }
	r.gate = &admission.Gate{Policies: policy.NewCurrent(files.Set()), Store: decides, Now: clock, MaxWriteInterval: time.Minute}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.server.Close)
	peek := Store{Name: name, Peeker: decides}
	if name == "memory" {
		peek.Now = clock
	}
	mux := http.NewServeMux()
	mux.Handle("GET /explain", Handler(peek, time.Minute))
	r.endpoint = httptest.NewServer(mux)
	t.Cleanup(r.endpoint.Close)
	return r
}

func (r *explainRig) documents() (all [][]byte) {
	for document := range strings.SplitSeq(r.policies, "---\n") {
		if strings.TrimSpace(document) != "" {
			all = append(all, []byte(document))
		}
	}
	return all
}

// list returns the API server's list of policies or quotas of one kind.
func (r *explainRig) list(resource string) map[string]any {
	items := []any{}
	for _, document := range r.documents() {
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			r.t.Error(err)
		}
		if kind, _ := object["kind"].(string); v1alpha1.Resources()[kind].Resource == resource {
			items = append(items, object)
		}
	}
	return map[string]any{"apiVersion": v1alpha1.GroupVersion().String(), "kind": "List", "items": items}
}

// serve answers requests to the API server for namespace storm, its Events and its policies.
func (r *explainRig) serve(w http.ResponseWriter, request *http.Request) {
	if r.policies == "" && strings.HasPrefix(request.URL.Path, "/apis/eventquota.io/") {
		http.NotFound(w, request)
		return
	}
	var response map[string]any
	switch request.URL.Path {
	case "/api/v1/namespaces/storm":
		response = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "storm"}}
	case "/api/v1/namespaces/storm/events":
		events := slices.DeleteFunc(slices.Clone(r.events), func(e corev1.Event) bool {
			return request.URL.Query().Get("fieldSelector") != "involvedObject.name="+e.InvolvedObject.Name
		})
		response = map[string]any{"apiVersion": "v1", "kind": "EventList", "items": events}
	case "/apis/eventquota.io/v1alpha1/clustereventpolicies", "/apis/eventquota.io/v1alpha1/clustereventquotas",
		"/apis/eventquota.io/v1alpha1/namespaces/storm/eventpolicies", "/apis/eventquota.io/v1alpha1/namespaces/storm/eventquotas":
		response = r.list(path.Base(request.URL.Path))
	default:
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response)
}

// write writes an Event about pod web-0, a second after the last, and returns the outcome. The API server has the Event unless the
// webhook refuses it.
func (r *explainRig) write(component, eventType, reason, message string) string {
	r.t.Helper()
	r.now = r.now.Add(time.Second)
	at := metav1.NewTime(r.now)
	e := corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "storm", Name: fmt.Sprintf("web-0.%d", r.now.Unix()%1000)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "storm", Name: "web-0", UID: "web-0-uid"},
		Source:         corev1.EventSource{Component: component}, Type: eventType, Reason: reason, Message: message,
		Count: 1, FirstTimestamp: at, LastTimestamp: at,
	}
	if component == "kubelet" {
		e.Source.Host = "node-1"
	}
	writers := sourcesOf([]corev1.Event{e})[0].byWriter(nil)
	writer := writers[len(writers)-1]
	if r.user != "" {
		writer.user = policy.UserInfo{Username: r.user}
	}
	request := writer.createRequest(&e)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute) // for a busy machine
	defer cancel()
	a, err := r.gate.Mutate(ctx, request)
	if err != nil {
		r.t.Fatal(err)
	}
	if a.Response.Allowed {
		if a.Outcome == admission.Aggregated {
			e.Message = admission.AggregateMessage(message, false)
		}
		r.events = append(r.events, e)
	}
	return string(a.Outcome)
}

// storm writes Events by several sources: one repeats, one has many messages, one is silenced, one is dropped, and the store has no
// state for one. There is also a notice.
func (r *explainRig) storm() *explainRig {
	r.t.Helper()
	for range 4 {
		r.write("kubelet", "Warning", "BackOff", "back-off restarting")
	}
	for i := range 6 {
		r.write("noisy-operator", "Normal", "Reconciled", fmt.Sprint("reconciled ", i))
	}
	for i := range 3 {
		r.write("noisy-operator", "Normal", fmt.Sprint("Reason", i), "one of a kind")
	}
	for range 5 {
		r.write("silenced", "Normal", "Noise", "noise")
	}
	for i := range 5 {
		r.write("flooder", "Normal", fmt.Sprint("Flood", i), "wave")
	}
	for range 3 {
		r.write("flooder", "Normal", "Flood0", "another wave")
	}
	notice := r.events[0]
	notice.Name, notice.Source, notice.Reason = "eventquota-flooder", corev1.EventSource{Component: "eventquota"}, settler.ReasonDropped
	r.events = append(r.events, notice)
	for component, reason := range map[string]string{"scheduler": "Scheduled", "silenced": "Noise"} {
		r.events = append(r.events, corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "storm", Name: "web-0.old-" + component},
			InvolvedObject: r.events[0].InvolvedObject,
			Source:         corev1.EventSource{Component: component}, Type: "Normal", Reason: reason, Message: "from before", Count: 7,
		})
	}
	return r
}

const stormPolicies = `apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: floor}
spec:
  tier: Baseline
  merge: {similar: {threshold: 4}}
  spamFilter: {burst: 4, tokens: 1, interval: 5m}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: fair}
spec:
  limits: [{name: namespace, per: [Namespace], burst: 25, tokens: 1, interval: 1m}]
---
apiVersion: eventquota.io/v1alpha1
kind: EventPolicy
metadata: {name: silence, namespace: storm}
spec:
  precedence: 7
  action: Drop
  match: {reasons: [Noise], messages: ['*']}
`

// kubeconfig writes a kubeconfig for the API server of the rig and namespace storm, and returns its path.
func (r *explainRig) kubeconfig() string {
	r.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: r.server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: "storm"}
	config.CurrentContext = "c"
	file := filepath.Join(r.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// explain runs eventquota explain in the cluster of the rig.
func (r *explainRig) explain(args ...string) (string, error) {
	r.t.Helper()
	return explain(r.t, append(args, "--kubeconfig", r.kubeconfig(), "--endpoint", r.endpoint.URL)...)
}

// report runs eventquota explain for pod web-0, and returns its report.
func (r *explainRig) report(args ...string) *report {
	r.t.Helper()
	out, err := r.explain(append(args, "pod/web-0", "-o", "json")...)
	if err != nil {
		r.t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return &got
}

// explain runs eventquota explain.
func explain(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, errs, err := cli.Run(t, cli.WithRoot(Command()), nil, append([]string{"explain"}, args...)...)
	return out + errs, err
}

func newMemory(t *testing.T) *memory.Store {
	t.Helper()
	return memory.New(memory.Options{Bytes: memory.DefaultBytes})
}
