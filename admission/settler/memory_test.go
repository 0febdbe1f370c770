package settler_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

const flush = 10 * time.Second

// merge merges n occurrences into the stored Event of each name, one a second.
func merge(t *testing.T, m *store.Memory, n int, names ...string) {
	t.Helper()
	for i := range n {
		for _, name := range names {
			w := store.Write{
				Group: store.KeyOf(name), Exact: store.KeyOf(name, "exact"), Similar: store.KeyOf(name, "similar"),
				Namespace: "default", Name: fmt.Sprint(name, i), Count: 1, At: time.Now(),
			}
			terms := store.Terms{
				MaxEvents: 10, Window: 10 * time.Minute, RepeatWindow: time.Hour, FlushInterval: flush,
				Spam: store.Bucket{Limit: store.Limit{Burst: 25, Every: time.Minute}},
			}
			d, err := m.Merge(t.Context(), time.Now(), w, terms)
			if err == nil && d.Verdict == store.Admit {
				d, err = m.Take(t.Context(), time.Now(), w, terms)
			}
			if want := (map[bool]store.Verdict{true: store.Admit, false: store.Merge})[i == 0]; err != nil || d.Verdict != want {
				t.Errorf("occurrence %d of %s: %v %v, want %v", i, name, d.Verdict, err, want)
			}
		}
		<-time.After(time.Second)
	}
}

func newMemory(t *testing.T) *store.Memory {
	t.Helper()
	m, err := store.NewMemory(store.DefaultBytes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// start runs a Settler of m until what it returns is called, which drains it.
func (r *rig) start(t *testing.T, m *store.Memory, during time.Duration, o settler.Options) (wait func()) {
	t.Helper()
	ended := make(chan error)
	go func() { ended <- r.run(m, during, o) }()
	return func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
		left, err := m.Due(t.Context(), time.Now().Add(time.Hour), math.MaxInt64, math.MaxInt)
		if err != nil || len(left) > 0 {
			t.Errorf("%v left, error %v", left, err)
		}
	}
}

func TestAnEventIsWrittenOnceInAFlushInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		m := newMemory(t)
		wait := r.start(t, m, 5*time.Minute, settler.Options{})
		merge(t, m, 120, "a", "b")
		wait()
		for _, name := range []string{"a0", "b0"} {
			var at []time.Duration
			for _, c := range r.calls {
				if c.says == "patch default/"+name {
					at = append(at, c.after)
				}
			}
			for i, after := range at {
				if i > 0 && after-at[i-1] < flush || i > 0 && after-at[i-1] > flush+time.Second {
					t.Errorf("%s is written %v after the last time", name, after-at[i-1])
				}
			}
			if len(at) != 12 {
				t.Errorf("%s is written at %v, want 12 times", name, at)
			}
		}
		for _, c := range r.calls[len(r.calls)-2:] {
			if !strings.HasPrefix(c.body, `{"count":120,`) {
				t.Errorf("the last %s says %s, want a count of 120", c.says, c.body)
			}
		}
	})
}

func TestADrainSettlesWhatIsNotDueYet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		m := newMemory(t)
		wait := r.start(t, m, 4*time.Second, settler.Options{})
		merge(t, m, 4, "a", "b", "c")
		wait()
		did := r.did()
		slices.Sort(did)
		if got := fmt.Sprint(did); got != "[patch default/a0 patch default/b0 patch default/c0]" {
			t.Errorf("did %s, want one patch of each", got)
		}
		if took := time.Since(r.began); took > 5*time.Second {
			t.Errorf("ended after %v, want about a second after its context", took)
		}
	})
}
