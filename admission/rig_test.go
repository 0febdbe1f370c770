package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that no review leaves a goroutine running.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// epoch is when every clock in these tests starts.
func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

// scenario is one test: its name, its changes to the policy, and its steps.
type scenario struct {
	name   string
	change func(*appliedRules)
	steps  []step
}

// step writes an Event at a time since the start of the scenario. The text of the answer must be exactly the wanted one.
type step struct {
	at   time.Duration
	do   action
	want string
}

type action func(*rig) string

// appliedRules has the policy and quotas for all Events of a test, and policies that come before the policy.
type appliedRules struct {
	policy.Policy

	quotas          []*policy.Quota // of the cluster, or of namespace default
	earlierPolicies []*policy.Policy
}

func defaults() *appliedRules { return &appliedRules{Policy: *policy.Default()} }

// namedPolicy returns the default policy with a name and changes.
func namedPolicy(name string, change func(*appliedRules)) *appliedRules {
	p := defaults()
	p.Name, p.SpamFilter.ID = name, name
	change(p)
	return p
}

// addAudited puts the policy in mode Audit, and returns it.
func (p *appliedRules) addAudited() *policy.Policy {
	p.Mode = policy.Audit
	return &p.Policy
}

// addQuota adds a ClusterEventQuota.
func (p *appliedRules) addQuota(all ...policy.QuotaLimit) {
	p.quotas = append(p.quotas, quota("quota", all...))
}

// quota returns a ClusterEventQuota with a name.
func quota(name string, limits ...policy.QuotaLimit) *policy.Quota {
	q := &policy.Quota{Rule: policy.Rule{Name: name, Identity: policy.Identity{Kind: "ClusterEventQuota", Name: name}}}
	for _, l := range limits {
		l.ID = name + "/" + l.ID
		q.Limits = append(q.Limits, l)
	}
	return q
}

// limit returns a limit whose name is the first part of its per.
func limit(burst, tokens int, interval time.Duration, per ...policy.KeyPart) policy.QuotaLimit {
	name := "all"
	if len(per) > 0 {
		name = "each " + string(per[0])
	}
	return policy.QuotaLimit{Name: name, Bucket: policy.Bucket{
		ID: fmt.Sprint(name, per, burst), Per: per, Burst: burst, Tokens: tokens, Interval: interval,
	}}
}

// onePerHour returns a limit of one Event an hour.
func onePerHour(per ...policy.KeyPart) policy.QuotaLimit { return limit(1, 1, time.Hour, per...) }

// onlyLimits disables everything that merges or limits except the given limits.
func onlyLimits(limits ...policy.QuotaLimit) func(*appliedRules) {
	return func(p *appliedRules) {
		p.Merge.Enabled, p.SpamFilter.Enabled = false, false
		p.addQuota(limits...)
	}
}

// spamFilterBurst sets the burst of the spam filter.
func spamFilterBurst(n int) func(*appliedRules) {
	return func(p *appliedRules) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = n, 0 }
}

func (p *appliedRules) current() *policy.Current {
	cluster, own := policy.Rules{Policies: p.earlierPolicies}, policy.Rules{}
	for _, q := range p.quotas {
		if q.Identity.Namespace == "" {
			cluster.Quotas = append(cluster.Quotas, q)
		} else {
			own.Quotas = append(own.Quotas, q)
		}
	}
	return policy.NewCurrent(policy.NewSet(&p.Policy, cluster, map[string]policy.Namespace{"default": {Rules: own}}))
}

// runScenarios runs scenarios, each with its own Gate.
func runScenarios(t *testing.T, stories []scenario) {
	t.Helper()
	for _, s := range stories {
		p := defaults()
		if s.change != nil {
			s.change(p)
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			newRig(t, p).run(s.steps)
		})
		t.Run(s.name+", prepared", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, p)
			r.prepares = true
			r.run(s.steps)
		})
	}
}

// rig is a Gate with a Memory store and a clock that only the test moves.
type rig struct {
	t      *testing.T
	now    time.Time
	memory *memory.Store
	store  *watchedStore // of the Gate, on memory
	gate   *admission.Gate
	// prepares means that another Gate prepares each CREATE.
	prepares bool
}

// watchedStore is a store that records the name of the Event of its last merge, which answers do not have.
type watchedStore struct {
	store.Store

	decisions  int         // how many it was asked about
	mergedInto string      // of the last one
	lastWrite  store.Write // the last one
}

func (s *watchedStore) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	d, err := s.Store.Decide(ctx, now, w, l)
	s.decisions++
	s.mergedInto, s.lastWrite = d.MergedInto, w
	return d, err
}

func newRig(t *testing.T, p *appliedRules) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch(), memory: newMemory(t)}
	r.store = &watchedStore{Store: r.memory}
	r.gate = newGate(r.store, p)
	r.gate.AuditStore = memory.New(memory.Options{Bytes: memory.AuditBytes, NoSettler: true})
	r.gate.Now = func() time.Time { return r.now }
	return r
}

// run runs steps, and fails the test at the first with another answer than wanted.
func (r *rig) run(steps []step) {
	r.t.Helper()
	for i, step := range steps {
		r.now = epoch().Add(step.at)
		if got := step.do(r); got != step.want {
			r.t.Fatalf("step %d, at %v:\n got %q\nwant %q", i+1, step.at, got, step.want)
		}
	}
}

func newMemory(t testing.TB) *memory.Store {
	t.Helper()
	return memory.New(memory.Options{Bytes: memory.DefaultBytes})
}

// nodesMayPatch is a Rights that lets nodes patch all Events, and nobody else any.
type nodesMayPatch struct{}

func (nodesMayPatch) MayPatchEvents(_, _ string, u *policy.UserInfo) bool {
	return strings.HasPrefix(u.Username, "system:node:")
}

// newGate returns a Gate with the real clock. It admits three undecided Events and logs three errors, two of them for one namespace.
func newGate(s store.Store, p *appliedRules) *admission.Gate {
	return &admission.Gate{
		Policies:         p.current(),
		Store:            s,
		Rights:           nodesMayPatch{},
		Now:              time.Now,
		UndecidedLimiter: admission.NewLimiter(3, time.Hour),
		LogLimiter:       admission.NewLimiter(3, time.Hour),
	}
}

// create sends a CREATE to the mutating phase, as the API server does.
func create(name string, details ...detail) action {
	return func(r *rig) string {
		request, phase := newRequest(r.now, name, details), r.gate.Mutate
		if r.prepares {
			other := &admission.Gate{
				Policies: r.gate.Policies, StoreID: r.gate.StoreID, Workloads: r.gate.Workloads, Rights: r.gate.Rights,
				MaxWriteInterval: r.gate.MaxWriteInterval, Now: time.Now,
			}
			if err := other.Prepare(r.t.Context(), request); err == nil {
				phase = r.gate.MutatePrepared
			} else if request.Operation == admissionv1.Create && request.Kind.Kind == "Event" && request.Kind.Group == "" {
				r.t.Error(err)
			}
		}
		return r.answerText(r.gate.Decide(r.t.Context(), phase, request))
	}
}

// validate sends a CREATE to the validating phase, as the API server does if there is no mutating webhook.
func validate(name string, details ...detail) action {
	return func(r *rig) string {
		return r.answerText(r.gate.Decide(r.t.Context(), r.gate.Validate, newRequest(r.now, name, details)))
	}
}

// update sends an UPDATE of a named Event from before to after.
func update(name string, before, after details) action {
	return func(r *rig) string {
		request := newRequest(r.now, name, after)
		request.Operation = admissionv1.Update
		request.OldObject = newRequest(r.now, name, before).Object
		return r.answerText(r.gate.Decide(r.t.Context(), r.gate.Validate, request))
	}
}

// answerText returns an answer as text and, for a merge, the Event that it was merged into.
func (r *rig) answerText(a admission.Answer) string {
	r.t.Helper()
	if a.Response.UID != requestUID {
		r.t.Errorf("answer to request %q, want %q", a.Response.UID, requestUID)
	}
	if a.Response.Allowed {
		words := []string{string(a.Outcome)}
		for _, e := range patchOps(r.t, a) {
			words = append(words, e.Path+" = "+e.Value)
		}
		return strings.Join(words, ", ")
	}
	result := a.Response.Result
	if result.Details != nil {
		r.t.Errorf("denial has details %v, which may set a Retry-After header", result.Details)
	}
	said := result.Message
	if a.Outcome == admission.Merged {
		rest, ok := strings.CutPrefix(said, "merged into a stored Event, ")
		if !ok {
			r.t.Errorf("merge says %q", said)
		}
		said = "merged into " + r.store.mergedInto + ", " + rest
	}
	return fmt.Sprintf("%s %d %s: %s", a.Outcome, result.Code, result.Reason, said)
}

type patchOp struct{ Op, Path, Value string }

// patchOps returns the operations of an answer's patch, without AnnotationCreateID.
func patchOps(t *testing.T, a admission.Answer) []patchOp {
	t.Helper()
	list, _ := parsePatch(t, a.Response.Patch)
	return list
}

// parsePatch returns the operations of a patch, and separately the value of AnnotationCreateID.
func parsePatch(t *testing.T, patch []byte) (list []patchOp, id string) {
	t.Helper()
	if patch == nil {
		return nil, ""
	}
	var all []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(patch, &all); err != nil {
		t.Fatalf("patch %s: %v", patch, err)
	}
	for _, e := range all {
		switch value := e.Value.(type) {
		case map[string]any:
			noted, isText := value[admission.AnnotationCreateID].(string)
			if e.Op != "add" || e.Path != "/metadata/annotations" || len(value) != 1 || !isText || id != "" {
				t.Fatalf("patch %s", patch)
			}
			id = noted
		case string:
			if e.Path == "/metadata/annotations/eventquota.io~1create-id" {
				id = value
				continue
			}
			list = append(list, patchOp{e.Op, e.Path, value})
		default:
			t.Fatalf("patch %s", patch)
		}
	}
	return list, id
}

// pendingText returns a pending write as text.
func pendingText(p store.PendingWrite) string {
	if p.Notice != nil {
		return fmt.Sprintf("notice %s about %v: %d, %v of %v", p.Notice.Bucket, p.Notice.InvolvedObject, p.Total, p.Notice.Reasons, p.Notice.Sources)
	}
	return fmt.Sprintf("write %s: %d (%d merged) %q", p.Name, p.Total, p.Merged(), p.Text)
}

// claim returns all pending writes.
func (r *rig) claim() []store.PendingWrite {
	r.t.Helper()
	all, err := r.memory.Claim(r.t.Context(), r.now, math.MaxInt64, math.MaxInt, func(string, store.Key) bool { return false })
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// claimTexts returns all pending writes as sorted texts.
func (r *rig) claimTexts() []string {
	r.t.Helper()
	var said []string
	for _, p := range r.claim() {
		said = append(said, pendingText(p))
	}
	slices.Sort(said)
	return said
}
