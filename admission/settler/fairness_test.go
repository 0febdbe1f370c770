package settler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// TestNoticesInDefaultDoNotDelayCounts has a quota of the cluster refuse 4,000 users of another namespace, or of default itself:
// the notices are all in default. A count of default goes out before the most of them.
func TestNoticesInDefaultDoNotDelayCounts(t *testing.T) {
	t.Parallel()
	for _, noisy := range []string{"storm", "default"} {
		t.Run("of "+noisy, func(t *testing.T) {
			runInBubble(t, func(r *rig) {
				m := newMemory(r.T)
				for i := range 4000 { // at most 100 are written each second
					user := fmt.Sprint("u", i)
					pod := store.Object{APIVersion: "v1", Kind: "Pod", Namespace: noisy, Name: user}
					w := store.Write{
						GroupKey: store.KeyOf(user), ObjectKey: store.KeyOf("o", user), ExactKey: store.KeyOf("e", user), SimilarKey: store.KeyOf("s", user),
						Namespace: noisy, Name: fmt.Sprint("e", i), Count: 1, Reason: "Killing", InvolvedObject: pod,
					}
					l := store.Limits{Window: time.Hour, IdenticalWindow: time.Hour, WriteInterval: interval, Quotas: []store.Bucket{{
						Key: store.KeyOf("b", user), Limit: store.Limit{Every: time.Hour}, Name: "each user",
						NoticeObject: store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: "ClusterEventQuota", Name: "quota"},
					}}}
					if d, err := m.Decide(r.Context(), time.Now(), w, l); err != nil || d.Verdict != store.Drop {
						r.Fatalf("%v %v, want a drop", d.Verdict, err)
					}
				}
				abandon := make(chan struct{})
				ended := r.start(&ignorePending{m}, time.Hour, settler.Options{Abandon: abandon})
				<-time.After(interval + time.Second)
				before := len(r.requestTexts())
				r.repeat(m, 2, "quiet")
				<-time.After(interval)
				close(abandon)
				ended()
				n := slices.Index(r.requestTexts()[before:], "patch default/quiet0")
				due := slices.IndexFunc(r.requests[before:], func(q *request) bool { return q.after >= interval+time.Second+interval })
				if n < 0 || n-due > 25+64+8 { // see TestDropStormDoesNotDelayOtherNamespaces
					r.Errorf("the count is written by request %d since it fell due", n-due)
				}
			})
		})
	}
}
