package settler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// rig is a Settler between an account of debts and a fake API server. It lives
// in a bubble of package synctest: its clocks go on as soon as all there is to
// do is to wait.
type rig struct {
	began   time.Time
	client  *fake.Clientset
	account *account
	// answer is what the API server says to the nth write, from 1. Told
	// without an error.
	answer func(n int) error

	mu      sync.Mutex
	calls   []call
	results []settler.Result
}

// call is one write of an Event.
type call struct {
	after time.Duration
	says  string // verb and name
	body  string // of a patch
	event *corev1.Event
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{began: time.Now(), client: fake.NewClientset(), account: &account{}, answer: func(int) error { return nil }}
	r.client.PrependReactor("*", "events", r.react)
	return r
}

func (r *rig) react(action clientgotesting.Action) (bool, runtime.Object, error) {
	c := call{after: time.Since(r.began), says: action.GetVerb()}
	switch a := action.(type) {
	case clientgotesting.CreateAction:
		c.event = a.GetObject().(*corev1.Event)
		c.says += " " + a.GetNamespace() + "/" + c.event.Name
	case clientgotesting.PatchAction:
		c.says += " " + a.GetNamespace() + "/" + a.GetName()
		c.body = string(a.GetPatch())
	}
	r.mu.Lock()
	r.calls = append(r.calls, c)
	n := len(r.calls)
	r.mu.Unlock()
	return true, &corev1.Event{}, r.answer(n)
}

func (r *rig) count(result settler.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, result)
}

// run runs a Settler for a time and drains it. It returns what Run says.
func (r *rig) run(debts store.Settling, during time.Duration, o settler.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), during)
	defer cancel()
	o.Count = r.count
	return settler.New(debts, r.client.CoreV1(), o).Run(ctx)
}

// did are the writes in words.
func (r *rig) did() []string {
	var did []string
	for _, c := range r.calls {
		did = append(did, c.says)
	}
	return did
}

// account hands out each debt once and keeps what becomes of it.
type account struct {
	mu   sync.Mutex
	owed []store.Debt
	came []string
	// unheard and mute are how many calls of Settle and of Due fail at first.
	unheard, mute int
	// more is how many calls of Settle find that more is owed in the meantime.
	// The store hands it out again before they return, a second later.
	more int
	// most is how many debts were claimed at the same time.
	claimed, most int
}

var errAway = errors.New("store is away")

func (a *account) Due(_ context.Context, _ time.Time, _ time.Duration, n int) ([]store.Debt, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mute > 0 {
		a.mute--
		return nil, errAway
	}
	n = min(n, len(a.owed))
	handed := a.owed[:n:n]
	a.owed = a.owed[n:]
	a.claimed += n
	a.most = max(a.most, a.claimed)
	return handed, nil
}

func (a *account) Settle(_ context.Context, _ time.Time, d store.Debt, o store.Outcome) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unheard > 0 {
		a.unheard--
		return errAway
	}
	a.claimed--
	a.came = append(a.came, fmt.Sprintf("%s %s", d.Name, []string{"told", "gone", "refused"}[o]))
	if a.more > 0 {
		a.more--
		a.owed = append(a.owed, d)
		a.mu.Unlock()
		<-time.After(time.Second)
		a.mu.Lock()
	}
	return nil
}

// debt is what is owed to the Event of a name: three occurrences, one merged.
func debt(name string, changes ...func(*store.Debt)) store.Debt {
	d := store.Debt{
		Ref:       store.Ref{Group: store.KeyOf(name), ID: 1},
		Namespace: "default", Name: name,
		Total: 3, Merged: 1,
		Last: epoch().Add(90 * time.Second),
	}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }
