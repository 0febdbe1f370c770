package admission

import (
	"cmp"
	"context"
	"iter"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/eventquota/eventquota/admission/validation"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
)

// evaluation is a write that stores are asked about.
type evaluation struct {
	*Request

	resolution policy.Resolution
	// rewritable reports whether the answer may change the Event.
	rewritable bool
	// invalid reports whether the API server will refuse the write, unless it is a dry run.
	invalid bool
	// storeID is that of the Gate.
	storeID string
	// involvedObject is what a notice says that the Event is about, and workload what that belongs to, as far as is known.
	involvedObject, workload store.Object
	// identity is what tells the Event from others once it is stored; without it, as unknown says, nothing is merged.
	identity   store.Identity
	noIdentity bool
	// name is what the Event is called once it is stored, and message the newest within the limit of its policy.
	name, message string
	// written is the write for the store, made when one is first asked, and updates what an UPDATE adds to it.
	built      bool
	storeWrite store.Write
	// prepared are the limits in force where Prepare has made them.
	prepared *store.Limits
	// quotaBuckets are the buckets that the store was asked about last.
	quotaBuckets []store.Bucket
	storeUpdate  store.Update
	// spamFilterKey is that of the spam filter in what a store was asked last.
	spamFilterKey store.Key
}

func (g *Gate) newEvaluation(r *Request, gov policy.Resolution, rewritable bool) *evaluation {
	q := &r.evaluation
	*q = evaluation{
		Request: r, resolution: gov, rewritable: rewritable, storeID: g.StoreID, name: r.Object.Name, message: r.Object.Message,
	}
	q.involvedObject = reportableObject(r.Namespace, r.Object)
	if g.Workloads != nil {
		q.workload, _ = g.Workloads.Find(q.involvedObject.Namespace, q.involvedObject.Kind, q.involvedObject.Name, q.involvedObject.UID)
	}
	if gov.Policy.Action != policy.Exempt && (rewritable || r.Operation == admissionv1.Update) {
		q.message = Truncate(q.message, gov.Policy.MaxMessageBytes)
	}
	return q
}

// usesEventsAPI reports whether the client used events.k8s.io.
func (q *evaluation) usesEventsAPI() bool { return q.RequestKind.Group == "events.k8s.io" }

// isInvalid reports whether the API server will refuse the write as it would be stored.
func (q *evaluation) isInvalid() bool {
	e := q.Object
	switch {
	case q.DecodeError != nil:
		return false // it cannot be known
	case !q.rewritable && e.Name == "":
		return true
	case q.Operation == admissionv1.Update:
		return false // it has been validated
	}
	if q.message != e.Message {
		rewritten := *e
		rewritten.Message = q.message
		e = &rewritten
	}
	return validation.Rejects(e, q.Namespace, q.usesEventsAPI())
}

// assignName gives an Event that asks for a generated name one, where it still can: what is merged into a stored Event must
// know it by its name. One that cannot be read is an occurrence of its own, whatever it is called. The random part is
// longer than that of the API server, as no other name is tried when it is taken.
func (q *evaluation) assignName() {
	if q.name == "" && q.rewritable || q.DecodeError != nil {
		q.name = store.Clip(q.Object.GenerateName, names.MaxGeneratedNameLength) + rand.String(10)
	}
}

// maxAnnotations is how many annotations an Event may have to get another one: the settler adds two more, and the policy
// of sizes that is installed with eventquota takes 128.
const maxAnnotations = 125

// chooseIdentity chooses what tells the Event of a CREATE from others of its name, which may say the same and be created in the
// same second. Where the validating phase decides, that is the uid, which the API server has given it. The mutating phase
// comes before that, and one call more for each CREATE costs the API server a quarter of what it can do, so a note on the
// Event is it: to decide and to settle takes no trip more. It costs the CREATE one operation of a JSON patch, 110 bytes of
// the answer, 10 allocations, and about 45 bytes in etcd.
//
// Nodes and the control plane do not pay that. They may change every Event of the cluster, so they need not pretend that
// one is theirs; and as all others' Events are told by a note, nobody else's write goes into one without.
//
// An Event with too many annotations to get one more is not merged, nor are others into it.
func (q *evaluation) chooseIdentity() {
	if q.Operation != admissionv1.Create || q.resolution.Policy.Action != policy.Limit || !q.resolution.Policy.Merge.Enabled || q.DecodeError != nil {
		return
	}
	switch {
	case !q.rewritable:
		q.identity.UID = string(q.Object.UID)
	case canUpdateAnyEvent(q.UserInfo.Username):
	case len(q.Object.Annotations) > maxAnnotations:
		q.noIdentity = true
	default:
		q.identity.CreateID = mathrand.Uint64() | 1 //nolint:gosec // it is no secret; 0 is none
	}
}

// canUpdateAnyEvent reports whether a user is a node or of the control plane: by names that only the API server's own
// authentication gives, and to which Kubernetes grants patch of Events in all namespaces.
func canUpdateAnyEvent(user string) bool {
	for _, prefix := range []string{"system:node:", "system:kube-", "system:serviceaccount:kube-system:"} {
		if strings.HasPrefix(user, prefix) {
			return true
		}
	}
	return false
}

// quotaLimits are limits, each with the quota it is of.
type quotaLimits = iter.Seq2[*policy.Quota, *policy.QuotaLimit]

// limitsInForce is what the store is asked under.
func (g *Gate) limitsInForce(q *evaluation) store.Limits {
	if q.prepared != nil {
		return *q.prepared
	}
	return g.storeLimits(q, q.resolution.Policy, q.resolution.Limits())
}

// applies reports whether anything merges or limits a write.
func applies(l *store.Limits) bool {
	return l.Merge || !l.SpamFilter.Key.IsZero() || len(l.Quotas) > 0
}

// evaluate asks a store what becomes of a write under limits, where anything merges or limits it.
func (g *Gate) evaluate(ctx context.Context, s store.Store, q *evaluation, l store.Limits) (store.Decision, error) {
	q.decidedAt, q.spamFilterKey, q.quotaBuckets = DecisionTime{}, l.SpamFilter.Key, l.Quotas
	if !applies(&l) {
		return store.Decision{Verdict: store.Admit}, nil
	}
	w := q.buildWrite()
	// As late as possible, so that writes are nearly always decided in the order of their times.
	now := g.Now()
	d, err := s.Decide(ctx, now, *w, l)
	q.decidedAt = DecisionTime{At: now, Offset: max(0, d.Order-now.UnixMicro())}
	return d, err
}

// buildWrite is what a request writes, for the store.
func (q *evaluation) buildWrite() *store.Write {
	if q.built {
		return &q.storeWrite
	}
	h, e := &q.hasher, q.Object
	object := objectKey(h, q.Namespace, e)
	text, combined := strings.CutPrefix(q.message, aggregatePrefix)
	w := &q.storeWrite
	*w = store.Write{
		GroupKey:       groupKey(h, object, q.UserInfo.Username),
		ObjectKey:      object,
		SimilarKey:     similarKey(h, object, e),
		MessageKey:     h.Add(q.message).Sum(),
		Namespace:      q.Namespace,
		Name:           q.name,
		Identity:       q.identity,
		Count:          Occurrences(e),
		Series:         usesSeries(e),
		FirstSeen:      firstSeen(e),
		LastSeen:       LastSeen(e),
		Text:           text,
		Combined:       combined,
		Reason:         e.Reason,
		Warning:        e.Type == corev1.EventTypeWarning,
		InvolvedObject: q.involvedObject,
		Source:         noticeSource(e),
		Workload:       q.workload,
	}
	stored := q.message // of the Event, once this is decided
	if q.Operation == admissionv1.Update && q.DecodeError == nil {
		w.Combined = combined || isAggregate(q.OldObject)
		q.storeUpdate = q.buildUpdate(h)
		w.Update = &q.storeUpdate
		stored = e.Message
		if w.Update.ByRecorder {
			stored = q.OldObject.Message
		}
	}
	w.ExactKey = exactKey(h, object, e, stored)
	q.built = true
	return w
}

// objectKey names a source and object, and the namespace: Events about a cluster-scoped object are in more than one.
func objectKey(h *store.Hasher, namespace string, e *corev1.Event) store.Key {
	component, host := Source(e)
	h.Add("object", namespace, component, host)
	return addInvolvedObject(h, e).Sum()
}

func addInvolvedObject(h *store.Hasher, e *corev1.Event) *store.Hasher {
	o := &e.InvolvedObject
	return h.Add(o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion)
}

// groupKey names a source and object as one user reports it: anyone may say that they are a kubelet. A user's name
// stays when credentials are renewed; uid and extra do not.
func groupKey(h *store.Hasher, object store.Key, user string) store.Key {
	return h.Add("group", user).AddKey(object).Sum()
}

// exactKey names the Events of a source and object that repeat e, whose message is given: the fields of client-go's
// getEventKey. All messages of an aggregate are one, so that the stored Event is known whatever its newest one is.
func exactKey(h *store.Hasher, object store.Key, e *corev1.Event, message string) store.Key {
	if strings.HasPrefix(message, aggregatePrefix) {
		message = aggregatePrefix
	}
	return h.Add("exact").AddKey(object).
		Add(e.InvolvedObject.FieldPath, e.Type, e.Reason, message).Sum()
}

// similarKey names those like e but for their message: the fields of client-go's EventAggregatorByReasonFunc.
func similarKey(h *store.Hasher, object store.Key, e *corev1.Event) store.Key {
	return h.Add("similar").AddKey(object).
		Add(e.Type, e.Reason, e.ReportingController, e.ReportingInstance).Sum()
}

// bucketKey names a token bucket that is keyed by parts of a write. Its id is that of one rule: rules share no tokens.
func bucketKey(h *store.Hasher, id string, parts []policy.KeyPart, r *Request) store.Key {
	e := r.Object
	h.Add("bucket", id)
	for _, part := range parts {
		h.Add(string(part))
		switch part {
		case policy.KeySource:
			component, host := Source(e)
			h.Add(component, host)
		case policy.KeyController:
			component, _ := Source(e)
			h.Add(component)
		case policy.KeyKind:
			h.Add(e.InvolvedObject.APIVersion, e.InvolvedObject.Kind)
		case policy.KeyInvolvedObject:
			addInvolvedObject(h, e)
			if o := e.InvolvedObject.Namespace; o != "" && o != r.Namespace {
				h.Add(r.Namespace) // Events from other namespaces about an object have a bucket of their own
			}
		case policy.KeyType:
			h.Add(policy.EventType(e))
		case policy.KeyReason:
			h.Add(e.Reason)
		case policy.KeyNamespace:
			h.Add(r.Namespace)
		case policy.KeyUser:
			h.Add(r.UserInfo.Username)
		}
	}
	return h.Sum()
}

// storeLimits is the settings of a policy for an Event, and the limits that apply to it, for the store.
func (g *Gate) storeLimits(q *evaluation, p *policy.Policy, all quotaLimits) store.Limits {
	m := &p.Merge
	l := store.Limits{
		SimilarThreshold: m.Threshold,
		Window:           m.SimilarWindow,
		IdenticalWindow:  m.IdenticalWindow,
		WriteInterval:    m.WriteInterval,
		MaxWriteInterval: max(m.WriteInterval, cmp.Or(m.MaxWriteInterval, g.MaxWriteInterval)),
		KeepMessages:     m.KeepMessages,
	}
	switch p.Action {
	case policy.Drop:
		l.Quotas = []store.Bucket{q.dropAllBucket(&p.Rule)}
		return l
	case policy.Limit:
		l.Merge = m.Enabled && q.DecodeError == nil && !q.noIdentity
		if s := &p.SpamFilter; s.Enabled {
			l.SpamFilter, l.ReservePerReason, l.ChargeMerged = q.newBucket(&p.Rule, spamFilter, &s.Bucket), s.ReservePerReason, s.ChargeMerged
			l.SpamFilter.LimitID = s.ID
		}
	case policy.Exempt:
	}
	if q.resolution.HasQuotas() {
		l.Quotas = q.appendQuotaBuckets(l.Quotas, all)
	}
	return l
}

func (q *evaluation) appendQuotaBuckets(to []store.Bucket, all quotaLimits) []store.Bucket {
	warning := q.Object.Type == corev1.EventTypeWarning
	for quota, l := range all {
		b := q.newBucket(&quota.Rule, l.Name, &l.Bucket)
		b.OnFailure = storeFailure(quota.OnStoreFailure)
		if !warning {
			b.Reserve = l.Reserve
		}
		to = append(to, b)
	}
	return to
}

// spamFilter is the name of a spam filter's bucket in answers and notices; others have the names of their limits.
const spamFilter = "spam filter"

// newBucket is a bucket of a rule.
func (q *evaluation) newBucket(r *policy.Rule, name string, b *policy.Bucket) store.Bucket {
	made := store.Bucket{
		Limit:        store.Limit{Burst: b.Burst, Every: b.Interval / time.Duration(max(b.Tokens, 1))},
		Key:          bucketKey(&q.hasher, b.ID, b.Per, q.Request),
		Name:         name,
		Policy:       r.Name,
		NoticeObject: noticeObject(r, b.Per, q.Request),
		Silent:       r.NoNotices,
		// Where each reason has a bucket of its own, nothing is lost by naming it.
		Combined: r.CombinedNotices || slices.Contains(b.Per, policy.KeyReason),
	}
	if !b.Bounded() {
		made.LimitID = b.ID
	}
	return made
}

// dropAllBucket is the bucket of a policy that drops all. It has no name, as nobody can give it tokens.
func (q *evaluation) dropAllBucket(r *policy.Rule) store.Bucket {
	b := q.newBucket(r, "", &policy.Bucket{ID: r.Name + " drop", Per: []policy.KeyPart{policy.KeyNamespace}})
	b.Limit = store.Limit{}
	return b
}

// noticeObject is what a notice of a bucket is about: the narrowest object that all its drops have in common.
func noticeObject(rule *policy.Rule, parts []policy.KeyPart, r *Request) store.Object {
	i := &rule.Identity
	switch {
	case i.Kind == "", slices.Contains(parts, policy.KeyInvolvedObject):
		return reportableObject(r.Namespace, r.Object)
	case i.Namespace == "" && slices.Contains(parts, policy.KeyNamespace):
		return namespaceObject(r.Namespace)
	}
	return store.Object{
		APIVersion: v1alpha1.GroupName + "/" + v1alpha1.Version, Kind: i.Kind,
		Namespace: i.Namespace, Name: i.Name, UID: string(i.UID),
	}
}

// reportableObject is what an Event is about, if a notice can be about that. The API server takes an Event about an object of
// another namespace; a notice about that would be stored there, where the Event's writer need not have a say.
func reportableObject(namespace string, e *corev1.Event) store.Object {
	if o := &e.InvolvedObject; o.Name != "" && (o.Namespace == namespace || o.Namespace == "") {
		return store.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
	}
	return namespaceObject(namespace)
}

// namespaceObject is a namespace as notices are about it: they are valid in itself only.
func namespaceObject(name string) store.Object {
	return store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: name, Name: name}
}

// storeFailure defaults to Local.
func storeFailure(f policy.OnStoreFailure) store.FailureMode {
	switch f {
	case policy.FailureAdmit:
		return store.AdmitAll
	case policy.FailureDeny:
		return store.DenyAll
	case policy.FailureLocal:
	}
	return store.Local
}
