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

	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
)

// TestMain holds that no review leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is when every clock in these tests starts.
func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

// story is one test: a sentence, what it changes in the policy, and its steps.
type story struct {
	says   string
	policy func(*applied)
	steps  []step
}

// step writes an Event at a time since the story began. The answer, in words, must be exactly the one it wants.
type step struct {
	at   time.Duration
	do   action
	want string
}

type action func(*rig) string

// applied is what applies to all Events of a test: a policy, the quotas, and policies that are asked before.
type applied struct {
	policy.Policy

	quotas []*policy.Quota // of the cluster, or of namespace default
	before []*policy.Policy
}

func defaults() *applied { return &applied{Policy: *policy.Default()} }

// named is the default policy under a name, changed.
func named(name string, change func(*applied)) *applied {
	p := defaults()
	p.Name, p.SpamFilter.ID = name, name
	change(p)
	return p
}

// audited is a policy in mode Audit.
func (p *applied) audited() *policy.Policy {
	p.Mode = policy.Audit
	return &p.Policy
}

// limits has a quota of the cluster apply too.
func (p *applied) limits(all ...policy.QuotaLimit) {
	p.quotas = append(p.quotas, quota("quota", all...))
}

// quota is one of a name, of the cluster.
func quota(name string, limits ...policy.QuotaLimit) *policy.Quota {
	q := &policy.Quota{Rule: policy.Rule{Name: name, Identity: policy.Identity{Kind: "ClusterEventQuota", Name: name}}}
	for _, l := range limits {
		l.ID = name + "/" + l.ID
		q.Limits = append(q.Limits, l)
	}
	return q
}

// limit is one that is called by what has a bucket of its own.
func limit(burst, tokens int, interval time.Duration, per ...policy.KeyPart) policy.QuotaLimit {
	name := "all"
	if len(per) > 0 {
		name = "each " + string(per[0])
	}
	return policy.QuotaLimit{Name: name, Bucket: policy.Bucket{
		ID: fmt.Sprint(name, per, burst), Per: per, Burst: burst, Tokens: tokens, Interval: interval,
	}}
}

// hourly is one Event an hour.
func hourly(per ...policy.KeyPart) policy.QuotaLimit { return limit(1, 1, time.Hour, per...) }

// only has limits, and nothing else that merges or limits.
func only(limits ...policy.QuotaLimit) func(*applied) {
	return func(p *applied) {
		p.Merge.Enabled, p.SpamFilter.Enabled = false, false
		p.limits(limits...)
	}
}

// allows has the spam filter let so many Events pass.
func allows(n int) func(*applied) {
	return func(p *applied) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = n, 0 }
}

func (p *applied) inForce() *policy.Current {
	cluster, own := policy.Rules{Policies: p.before}, policy.Rules{}
	for _, q := range p.quotas {
		if q.Identity.Namespace == "" {
			cluster.Quotas = append(cluster.Quotas, q)
		} else {
			own.Quotas = append(own.Quotas, q)
		}
	}
	return policy.InForce(policy.NewSet(&p.Policy, cluster, map[string]policy.Namespace{"default": {Rules: own}}))
}

// runStories runs stories, each with a Gate of its own.
func runStories(t *testing.T, stories []story) {
	t.Helper()
	for _, s := range stories {
		p := defaults()
		if s.policy != nil {
			s.policy(p)
		}
		t.Run(s.says, func(t *testing.T) {
			t.Parallel()
			newRig(t, p).run(s.steps)
		})
		t.Run(s.says+", prepared", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, p)
			r.prepares = true
			r.run(s.steps)
		})
	}
}

// rig is a Gate on a Store in memory, with a clock that only the test moves.
type rig struct {
	t      *testing.T
	now    time.Time
	memory *memory.Store
	store  *watched // of the Gate, on memory
	gate   *admission.Gate
	// prepares says that a CREATE is prepared, by another Gate.
	prepares bool
}

// watched is a store that keeps the name of the Event into which it merged last: no answer says it.
type watched struct {
	store.Store

	writes int         // how many it was asked about
	into   string      // of the last one
	asked  store.Write // the last one
}

func (s *watched) Decide(ctx context.Context, now time.Time, w store.Write, l store.Limits) (store.Decision, error) {
	d, err := s.Store.Decide(ctx, now, w, l)
	s.writes++
	s.into, s.asked = d.Into, w
	return d, err
}

func newRig(t *testing.T, p *applied) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch(), memory: newMemory(t)}
	r.store = &watched{Store: r.memory}
	r.gate = newGate(r.store, p)
	r.gate.Audit = memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true})
	r.gate.Now = func() time.Time { return r.now }
	return r
}

// run takes steps, and fails at the first that has another answer.
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

// newGate makes a Gate with the real clock that admits three undecided Events and logs three complaints, two of one namespace.
func newGate(s store.Store, p *applied) *admission.Gate {
	return &admission.Gate{
		Policies:   p.inForce(),
		Store:      s,
		Now:        time.Now,
		Local:      admission.NewAllowance(3, time.Hour),
		Complaints: admission.NewAllowance(3, time.Hour),
	}
}

// create sends a CREATE to the mutating phase, as the API server does.
func create(name string, details ...detail) action {
	return func(r *rig) string {
		request, phase := newRequest(r.now, name, details), r.gate.Mutate
		if r.prepares {
			other := &admission.Gate{
				Policies: r.gate.Policies, StoreID: r.gate.StoreID, Workloads: r.gate.Workloads,
				MaxWriteInterval: r.gate.MaxWriteInterval, Now: time.Now,
			}
			if err := other.Prepare(r.t.Context(), request); err == nil {
				phase = r.gate.MutatePrepared
			} else if request.Operation == admissionv1.Create && request.Kind.Kind == "Event" && request.Kind.Group == "" {
				r.t.Error(err)
			}
		}
		return r.words(r.gate.Decide(r.t.Context(), phase, request))
	}
}

// validate sends a CREATE to the validating phase, as the API server does where there is no mutating webhook.
func validate(name string, details ...detail) action {
	return func(r *rig) string {
		return r.words(r.gate.Decide(r.t.Context(), r.gate.Validate, newRequest(r.now, name, details)))
	}
}

// update sends an UPDATE of the Event of a name from before to after.
func update(name string, before, after details) action {
	return func(r *rig) string {
		request := newRequest(r.now, name, after)
		request.Operation = admissionv1.Update
		request.OldObject = newRequest(r.now, name, before).Object
		return r.words(r.gate.Decide(r.t.Context(), r.gate.Validate, request))
	}
}

// words are all that an answer says and, of a merge, into which Event.
func (r *rig) words(a admission.Answer) string {
	r.t.Helper()
	if a.Response.UID != requestUID {
		r.t.Errorf("answer to request %q, want %q", a.Response.UID, requestUID)
	}
	if a.Response.Allowed {
		words := []string{string(a.Outcome)}
		for _, e := range edits(r.t, a) {
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
		said = "merged into " + r.store.into + ", " + rest
	}
	return fmt.Sprintf("%s %d %s: %s", a.Outcome, result.Code, result.Reason, said)
}

type edit struct{ Op, Path, Value string }

// edits are the operations of an answer's patch, but for that which notes the id of the CREATE.
func edits(t *testing.T, a admission.Answer) []edit {
	t.Helper()
	list, _ := editsOf(t, a.Response.Patch)
	return list
}

// editsOf are the operations of a patch and, apart from them, the id of the CREATE that one of them notes.
func editsOf(t *testing.T, patch []byte) (list []edit, id string) {
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
			list = append(list, edit{e.Op, e.Path, value})
		default:
			t.Fatalf("patch %s", patch)
		}
	}
	return list, id
}

// pending says in words what is to be written to one Event.
func pending(p store.PendingWrite) string {
	if p.Notice != nil {
		return fmt.Sprintf("notice %s about %v: %d, %v of %v", p.Notice.Bucket, p.Notice.About, p.Total, p.Notice.Reasons, p.Notice.Sources)
	}
	return fmt.Sprintf("write %s: %d (%d merged) %q", p.Name, p.Total, p.Merged(), p.Text)
}

// claim is all that is to be written.
func (r *rig) claim() []store.PendingWrite {
	r.t.Helper()
	all, err := r.memory.Claim(r.t.Context(), r.now, math.MaxInt64, math.MaxInt, func(string, store.Key) bool { return false })
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// pending is all that is to be written, in order, each in words.
func (r *rig) pending() []string {
	r.t.Helper()
	var said []string
	for _, p := range r.claim() {
		said = append(said, pending(p))
	}
	slices.Sort(said)
	return said
}
