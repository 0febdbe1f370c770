package check

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// The users that check impersonates, and its own user.
const (
	asNode       = "eventquota-check"
	asController = "system:serviceaccount:kube-system:eventquota-check"
	asAccount    = "system:serviceaccount:default:eventquota-check"
	asSettler    = "system:serviceaccount:eventquota-system:eventquota"
	asCaller     = ""
)

// fakeAPIServer is an API server that calls the webhook, and classifies requests by schemaOf.
type fakeAPIServer struct {
	schemas  []flowcontrolv1.FlowSchema
	levels   []flowcontrolv1.PriorityLevelConfiguration
	schemaOf map[string]string // the FlowSchema of each user; requests of others are not classified

	forbidden    []string // forbidden paths, and users that check may not impersonate
	failingUser  string   // a user whose requests fail with 503
	rejectedUser string   // a user whose first Event write is rejected because its queue is full
	noHeader     bool     // do not return the classification
	noAPI        bool     // do not serve flowcontrol.apiserver.k8s.io
	metrics      string
}

// newFakeAPIServer returns a fake with the FlowSchemas and levels of manifests/base, and some of Kubernetes.
func newFakeAPIServer(t *testing.T) *fakeAPIServer {
	t.Helper()
	f := &fakeAPIServer{
		schemaOf: map[string]string{asNode: "events-nodes", asController: "events-control-plane", asAccount: "events", asSettler: "eventquota", asCaller: "events"},
		metrics: "# HELP apiserver_flowcontrol_nominal_limit_seats Seats\n# TYPE apiserver_flowcontrol_nominal_limit_seats gauge\n" +
			`apiserver_flowcontrol_nominal_limit_seats{priority_level="events"} 12` + "\n" +
			`apiserver_flowcontrol_nominal_limit_seats{priority_level="events-system"} 13` + "\n" +
			"other{a=\"" + strings.Repeat("a", maxMetricLine/2) + "\"} 1\n" +
			`apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-high"} 98` + "\n",
	}
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		var schema flowcontrolv1.FlowSchema
		var level flowcontrolv1.PriorityLevelConfiguration
		switch o.GetKind() {
		case "FlowSchema":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &schema)
			f.add(schema)
		case "PriorityLevelConfiguration":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &level)
			level.UID = types.UID("level " + level.Name)
			f.levels = append(f.levels, level)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var high, exempt flowcontrolv1.PriorityLevelConfiguration
	high.Name, high.UID, high.Spec.Type = "workload-high", "level workload-high", flowcontrolv1.PriorityLevelEnablementLimited
	exempt.Name, exempt.UID, exempt.Spec.Type = "exempt", "level exempt", flowcontrolv1.PriorityLevelEnablementExempt
	f.levels = append(f.levels, high, exempt)
	f.add(flowSchema("catch-all", 10000, "workload-high", eventWrites(), group("*")))
	f.add(flowSchema("exempt", 1, "exempt", allRequests(), group("system:masters")))
	f.add(flowSchema("system-nodes", 500, "workload-high", allRequests(), group("system:nodes")))
	f.add(flowSchema("kube-system-service-accounts", 900, "workload-high", allRequests(), serviceAccount("kube-system", "*")))
	return f
}

func (f *fakeAPIServer) add(schema flowcontrolv1.FlowSchema) {
	schema.UID = types.UID("schema " + schema.Name)
	schema.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse}}
	f.schemas = append(f.schemas, schema)
}

// change calls change with the named FlowSchema.
func (f *fakeAPIServer) change(name string, change func(*flowcontrolv1.FlowSchema)) {
	for i := range f.schemas {
		if f.schemas[i].Name == name {
			change(&f.schemas[i])
		}
	}
}

// remove removes FlowSchemas. Their users then match the FlowSchema instead.
func (f *fakeAPIServer) remove(instead string, names ...string) {
	f.schemas = slices.DeleteFunc(f.schemas, func(s flowcontrolv1.FlowSchema) bool { return slices.Contains(names, s.Name) })
	for user, schema := range f.schemaOf {
		if slices.Contains(names, schema) {
			f.schemaOf[user] = instead
		}
	}
}

// ServeHTTP implements http.Handler.
func (f *fakeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, reason metav1.StatusReason, message string) {
		answer(w, &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		})
	}
	user := r.Header.Get("Impersonate-User")
	const api = "/apis/flowcontrol.apiserver.k8s.io/v1/"
	switch {
	case slices.Contains(f.forbidden, r.URL.Path) || user != "" && slices.Contains(f.forbidden, user):
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "forbidden")
	case f.noAPI && strings.HasPrefix(r.URL.Path, api):
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	case r.URL.Path == api+"flowschemas":
		answer(w, &flowcontrolv1.FlowSchemaList{Items: f.schemas})
	case r.URL.Path == api+"prioritylevelconfigurations":
		answer(w, &flowcontrolv1.PriorityLevelConfigurationList{Items: f.levels})
	case r.URL.Path == "/metrics":
		_, _ = fmt.Fprint(w, f.metrics)
	case f.failingUser != "" && f.failingUser == user:
		refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "etcd is unavailable")
	case r.URL.Query().Get("dryRun") == "All":
		matched := f.schemaOf[user]
		for _, s := range f.schemas {
			if s.Name == matched && !f.noHeader {
				w.Header().Set(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, string(s.UID))
				w.Header().Set(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID, "level "+s.Spec.PriorityLevelConfiguration.Name)
			}
		}
		if f.rejectedUser != "" && f.rejectedUser == user {
			delete(f.schemaOf, user) // a retry would not be classified
			w.Header().Set("Retry-After", "1")
			refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests")
			return
		}
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "events is forbidden")
	default:
		refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, `admission webhook "mutate.events.eventquota.io" denied the request: merged`)
	}
}
