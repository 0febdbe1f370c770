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

// evaluation is a write with everything that a decision of a store needs.
type evaluation struct {
	*Request

	resolution policy.Resolution
	// rewritable reports whether the answer may change the Event.
	rewritable bool
	// invalid reports whether the API server will refuse the write, unless it is a dry run.
	invalid bool
	// storeID is the StoreID of the Gate.
	storeID string
	// involvedObject is the object that notices about the Event name, and workload the one it belongs to, if known.
	involvedObject, workload store.Object
	// identity distinguishes the Event from others once it is stored. If noIdentity is true it has none, and nothing is
	// merged.
	identity   store.Identity
	noIdentity bool
	// name is the name under which the Event will be stored. message is the message, cut to the limit of the policy.
	name, message string
	// storeWrite is the write for the store, and storeUpdate the part that only an UPDATE has. Both are set once built is true.
	built      bool
	storeWrite store.Write
	// prepared are the limits in force, if Prepare has computed them.
	prepared *store.Limits
	// quotaBuckets are the quota buckets of the last call to a store.
	quotaBuckets []store.Bucket
	storeUpdate  store.Update
	// spamFilterKey is the key of the spam filter in the last call to a store.
	spamFilterKey store.Key
}

func (g *Gate) newEvaluation(r *Request, resolution policy.Resolution, rewritable bool) *evaluation {
	q := &r.evaluation
	*q = evaluation{
		Request: r, resolution: resolution, rewritable: rewritable, storeID: g.StoreID, name: r.Object.Name, message: r.Object.Message,
	}
	q.involvedObject = reportableObject(r.Namespace, r.Object)
	if g.Workloads != nil {
		q.workload, _ = g.Workloads.Find(q.involvedObject.Namespace, q.involvedObject.Kind, q.involvedObject.Name, q.involvedObject.UID)
	}
	if p := resolution.Policy; p.Action != policy.Exempt && (rewritable || r.Operation == admissionv1.Update) {
		q.message = Truncate(q.message, p.MaxMessageBytes)
	}
	return q
}

// usesEventsAPI reports whether the client used events.k8s.io.
func (q *evaluation) usesEventsAPI() bool { return q.RequestKind.Group == "events.k8s.io" }

// isInvalid reports whether the API server will refuse the write in the form in which it would be stored.
func (q *evaluation) isInvalid() bool {
	e := q.Object
	switch {
	case q.DecodeError != nil:
		return false // without the Event it is unknown
	case !q.rewritable && e.Name == "":
		return true
	case q.Operation == admissionv1.Update:
		return false // the API server has validated it before the webhook is called
	}
	if q.message != e.Message {
		rewritten := *e
		rewritten.Message = q.message
		e = &rewritten
	}
	return validation.Rejects(e, q.Namespace, q.usesEventsAPI())
}

// assignName assigns a name when generateName is set, if the answer may still change it: later Events are merged into the
// stored Event by its name. An Event that cannot be read also gets a random name, so that it counts as an occurrence of its
// own. The random part is longer than the API server's, because no other name is tried if it is taken.
func (q *evaluation) assignName() {
	if q.name == "" && q.rewritable || q.DecodeError != nil {
		q.name = store.Clip(q.Object.GenerateName, names.MaxGeneratedNameLength) + rand.String(10)
	}
}

// maxAnnotations bounds the annotations that an Event may have before it gets AnnotationCreateID. The settler adds two
// more, and the size policy that is installed with eventquota allows 128.
const maxAnnotations = 125

// chooseIdentity sets the identity of a CREATE, which distinguishes its Event from others of the same name. They may have
// the same content and be created in the same second. In the validating phase the identity is the uid, which the API server
// has assigned. The mutating phase comes before that, and a second call for each CREATE would cost the API server a quarter
// of its throughput. So there the identity is AnnotationCreateID, with which neither a decision nor a write of counts needs
// another call. But the JSON patch with it is most of what eventquota adds to the cost of an admitted Event.
//
// So Events of users who may patch all Events of the namespace get none: most recorders patch their own Events to count. Without the
// annotation, the content tells whose Event it is, and such a user could raise the count of another's Event of the same content anyway.
// No other user's writes are merged into an Event without the annotation. If a user sets it, the Event gets a new one.
//
// An Event with too many annotations is not merged, and no Event is merged into it.
func (q *evaluation) chooseIdentity(rights Rights) {
	if q.Operation != admissionv1.Create || q.resolution.Policy.Action != policy.Limit || !q.resolution.Policy.Merge.Enabled || q.DecodeError != nil {
		return
	}
	_, claimed := q.Object.Annotations[AnnotationCreateID]
	switch {
	case !q.rewritable:
		q.identity.UID = string(q.Object.UID)
	case len(q.Object.Annotations) > maxAnnotations:
		q.noIdentity = true
	case !claimed && rights != nil && rights.MayPatchEvents(q.Namespace, q.RequestKind.Group, &q.UserInfo):
	default:
		q.identity.CreateID = mathrand.Uint64() | 1 //nolint:gosec // not a secret; 0 would mean none
	}
}

// quotaLimits are limits with their quotas.
type quotaLimits = iter.Seq2[*policy.Quota, *policy.QuotaLimit]

// limitsInForce returns the limits of the policy and quotas in mode Enforce.
func (g *Gate) limitsInForce(q *evaluation) store.Limits {
	if q.prepared != nil {
		return *q.prepared
	}
	return g.storeLimits(q, q.resolution.Policy, q.resolution.Limits())
}

// applies reports whether l merges or limits a write at all.
func applies(l *store.Limits) bool {
	return l.Merge || !l.SpamFilter.Key.IsZero() || len(l.Quotas) > 0
}

// evaluate lets a store decide a write under limits. It admits the write without a call if nothing merges or limits it.
func (g *Gate) evaluate(ctx context.Context, s store.Store, q *evaluation, l store.Limits) (store.Decision, error) {
	q.decidedAt, q.spamFilterKey, q.quotaBuckets = DecisionTime{}, l.SpamFilter.Key, l.Quotas
	if !applies(&l) {
		return store.Decision{Verdict: store.Admit}, nil
	}
	w := q.buildWrite()
	// Read the clock as late as possible, so that writes are nearly always decided in the order of their times.
	now := g.Now()
	d, err := s.Decide(ctx, now, *w, l)
	q.decidedAt = DecisionTime{At: now, Offset: max(0, d.Order-now.UnixMicro())}
	return d, err
}

// buildWrite returns the write in the store's terms. It builds it once.
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
		Stamp:          stamp(e),
		Text:           text,
		Combined:       combined,
		Reason:         e.Reason,
		Warning:        e.Type == corev1.EventTypeWarning,
		InvolvedObject: q.involvedObject,
		Source:         noticeSource(e),
		Workload:       q.workload,
	}
	stored := q.message // the message of the stored Event after this write
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

// objectKey returns the key of a source and object in a namespace: Events about a cluster-scoped object may be in several.
func objectKey(h *store.Hasher, namespace string, e *corev1.Event) store.Key {
	component, host := Source(e)
	h.Add("object", namespace, component, host)
	return addInvolvedObject(h, e).Sum()
}

func addInvolvedObject(h *store.Hasher, e *corev1.Event) *store.Hasher {
	o := &e.InvolvedObject
	return h.Add(o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion)
}

// groupKey returns the key of a source and object for one user: any user can claim to be a kubelet. It has the user's name
// only, because uid and extra change when credentials are renewed.
func groupKey(h *store.Hasher, object store.Key, user string) store.Key {
	return h.Add("group", user).AddKey(object).Sum()
}

// exactKey returns the key of the Events of a source and object that repeat e with a message. It has the fields of
// client-go's getEventKey. All combined Events count as having the same message, so that the stored one is found whatever
// its latest message is.
func exactKey(h *store.Hasher, object store.Key, e *corev1.Event, message string) store.Key {
	if strings.HasPrefix(message, aggregatePrefix) {
		message = aggregatePrefix
	}
	return h.Add("exact").AddKey(object).
		Add(e.InvolvedObject.FieldPath, e.Type, e.Reason, message).Sum()
}

// similarKey returns the key of the Events that differ from e only in their message. It has the fields of client-go's
// EventAggregatorByReasonFunc.
func similarKey(h *store.Hasher, object store.Key, e *corev1.Event) store.Key {
	return h.Add("similar").AddKey(object).
		Add(e.Type, e.Reason, e.ReportingController, e.ReportingInstance).Sum()
}

// bucketKey returns the key of a token bucket, from its id and the given parts of a write. Each policy or quota has ids of
// its own, so they share no tokens.
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
				h.Add(r.Namespace) // Events in another namespace than their object have buckets of their own
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

// storeLimits returns a policy's settings and the quota limits that apply to an Event, in the store's terms.
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

func (q *evaluation) appendQuotaBuckets(buckets []store.Bucket, all quotaLimits) []store.Bucket {
	warning := q.Object.Type == corev1.EventTypeWarning
	for quota, l := range all {
		b := q.newBucket(&quota.Rule, l.Name, &l.Bucket)
		b.OnFailure = storeFailure(quota.OnStoreFailure)
		if !warning {
			b.Reserve = l.Reserve
		}
		buckets = append(buckets, b)
	}
	return buckets
}

// spamFilter is the name of a spam filter's bucket in answers and notices. Other buckets have the names of their limits.
const spamFilter = "spam filter"

// newBucket returns a bucket of a policy or quota for the store.
func (q *evaluation) newBucket(r *policy.Rule, name string, b *policy.Bucket) store.Bucket {
	bucket := store.Bucket{
		Limit:        store.Limit{Burst: b.Burst, Every: b.Interval / time.Duration(max(b.Tokens, 1))},
		Key:          bucketKey(&q.hasher, b.ID, b.Per, q.Request),
		Name:         name,
		Policy:       r.Name,
		NoticeObject: noticeObject(r, b.Per, q.Request),
		Silent:       r.NoNotices,
		// If each reason has a bucket of its own, a combined notice still names it.
		Combined: r.CombinedNotices || slices.Contains(b.Per, policy.KeyReason),
	}
	if !b.Bounded() {
		bucket.LimitID = b.ID
	}
	return bucket
}

// dropAllBucket returns the bucket of a policy that drops all Events. It has no name: it is not a bucket that users
// configure.
func (q *evaluation) dropAllBucket(r *policy.Rule) store.Bucket {
	b := q.newBucket(r, "", &policy.Bucket{ID: r.Name + " drop", Per: []policy.KeyPart{policy.KeyNamespace}})
	b.Limit = store.Limit{}
	return b
}

// noticeObject returns the involved object of a bucket's notice: the narrowest object that all its drops have in common.
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

// reportableObject returns the involved object of an Event, or the namespace if the object has no name or is in another
// namespace. The API server accepts such an Event, but a notice about the object would be stored in its namespace, where
// the Event's writer may have no rights.
func reportableObject(namespace string, e *corev1.Event) store.Object {
	if o := &e.InvolvedObject; o.Name != "" && (o.Namespace == namespace || o.Namespace == "") {
		return store.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
	}
	return namespaceObject(namespace)
}

// namespaceObject returns a namespace as an involved object. It has a namespace itself, because the API server accepts an
// Event about it only in the namespace that the object names.
func namespaceObject(name string) store.Object {
	return store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: name, Name: name}
}

// storeFailure converts f. The default is Local.
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
