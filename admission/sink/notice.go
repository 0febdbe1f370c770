package sink

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// notice identifies the notice that reports a drop, with the occurrences that may be missing from the sink.
type notice struct {
	register store.Key
	missing  engine.SinkLoss
}

// noticesBytes bounds the memory of losses that are not reported yet, and noticeBytes is the size of one without its texts.
const noticesBytes, noticeBytes = 1 << 20, 512

// ReportFunc adds the drops of a namespace that are missing from the sink to the notice of a register, if there is one.
type ReportFunc func(now time.Time, namespace string, register store.Key, m engine.SinkLoss)

// notices adds up undelivered occurrences by notice until they are reported. Namespaces share its bounded memory; losses that do
// not fit are in metrics only. It is safe for concurrent use.
type notices struct {
	mu      sync.Mutex
	hasher  store.Hasher
	pending *store.FairLRU[*pendingNotice]
}

// pendingNotice has the losses to report in one notice.
type pendingNotice struct {
	namespace string
	notice
}

func newNotices() *notices { return &notices{pending: store.NewFairLRU[*pendingNotice](noticesBytes)} }

// add adds the occurrences of an undelivered record.
func (n *notices) add(r *record) {
	if r.notice.register.IsZero() || r.notice.missing.Occurrences <= 0 {
		return
	}
	m := &r.notice.missing
	n.mu.Lock()
	defer n.mu.Unlock()
	key := n.hasher.AddKey(r.notice.register).Add(m.Bucket, m.Policy, m.Reason, strconv.FormatBool(m.Warnings && m.Reason != ""), r.namespace).Sum()
	if e := n.pending.Get(key); e != nil {
		e.Value.missing.Occurrences += m.Occurrences
		n.pending.Update(e, noticeBytes, false)
		return
	}
	e := n.pending.Add(key, r.namespace, &pendingNotice{strings.Clone(r.namespace), r.notice})
	n.pending.Update(e, noticeBytes+int64(len(m.Bucket)+len(m.Policy)+len(m.LimitID)+len(m.Reason)), false)
	n.pending.Shrink(0)
}

// flush reports everything added since the last flush.
func (n *notices) flush(now time.Time, report ReportFunc) {
	n.mu.Lock()
	all := n.pending
	n.pending = store.NewFairLRU[*pendingNotice](noticesBytes)
	n.mu.Unlock()
	for _, e := range all.All() {
		report(now, e.Value.namespace, e.Value.register, e.Value.missing)
	}
}
