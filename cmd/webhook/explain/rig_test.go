package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/cli"
)

// explainRig is a fake cluster with a webhook that has decided Events. It has an API server, and a replica at an endpoint. The API server
// lets its user only list Events, and reach the replica as the users of namespace storm do.
type explainRig struct {
	t        *testing.T
	now      time.Time
	user     string // the writer of Events; empty for the one that explain assumes
	gate     *admission.Gate
	reports  map[string][]watch.Report // by namespace
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
	r := &explainRig{t: t, now: time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC), reports: map[string][]watch.Report{}}
	files, err := policyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(policies, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		if err := files.Decode([]byte(document)); err != nil {
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
	answers := Replica{Store: peek, Policies: r.gate.Policies, Reports: func(namespace string) []watch.Report { return r.reports[namespace] }}
	mux := http.NewServeMux()
	mux.Handle("POST /explain", Handler(answers, time.Minute))
	mux.Handle("POST /namespaces/{namespace}/explain", Handler(answers, time.Minute))
	r.endpoint = httptest.NewServer(mux)
	t.Cleanup(r.endpoint.Close)
	return r
}

// proxyPath is the path of the API server that leads to a replica.
const proxyPath = "/api/v1/namespaces/eventquota-system/services/https:eventquota:metrics/proxy"

// serve answers requests to the API server for Events of namespace storm, for tokens, and for a replica.
func (r *explainRig) serve(w http.ResponseWriter, request *http.Request) {
	var response map[string]any
	status := http.StatusOK
	switch p := request.URL.Path; {
	case p == "/api/v1/namespaces/storm/events":
		events := slices.DeleteFunc(slices.Clone(r.events), func(e corev1.Event) bool {
			return e.Namespace != "storm" || request.URL.Query().Get("fieldSelector") != "involvedObject.name="+e.InvolvedObject.Name
		})
		response = map[string]any{"apiVersion": "v1", "kind": "EventList", "items": events}
	case p == "/api/v1/namespaces/storm/serviceaccounts/eventquota-viewer/token":
		response = map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "status": map[string]any{"token": "storm"}}
	case strings.HasPrefix(p, proxyPath+"/namespaces/storm/") && request.Header.Get("Eventquota-Token") == "storm":
		to, err := url.Parse(r.endpoint.URL)
		if err != nil {
			r.t.Error(err)
		}
		http.StripPrefix(proxyPath, httputil.NewSingleHostReverseProxy(to)).ServeHTTP(w, request)
		return
	default:
		status = http.StatusForbidden
		response = map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": http.StatusForbidden, "message": p + " is forbidden"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(response)
}

// write writes an Event about pod web-0 of namespace storm, a second after the last, and returns the outcome. The API server has the
// Event unless the webhook refuses it.
func (r *explainRig) write(component, eventType, reason, message string) string {
	r.t.Helper()
	r.now = r.now.Add(time.Second)
	return r.writeTo("storm", component, eventType, reason, message)
}

// writeTo writes an Event as write does, about a pod of any namespace.
func (r *explainRig) writeTo(namespace, component, eventType, reason, message string) string {
	r.t.Helper()
	at := metav1.NewTime(r.now)
	e := corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-0.%d", r.now.Unix()%1000)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: "web-0", UID: "web-0-uid"},
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

// explainAsTenant runs eventquota explain for a user who may only ask about namespace storm.
func (r *explainRig) explainAsTenant(args ...string) (string, error) {
	r.t.Helper()
	return explain(r.t, append(args, "--kubeconfig", r.kubeconfig())...)
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
