package settler_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

func TestDiscardLeavesNothingOwed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := store.NewMemory(store.MinBytes)
		if err != nil {
			t.Fatal(err)
		}
		w := store.Write{Group: store.KeyOf("g"), Exact: store.KeyOf("e"), Similar: store.KeyOf("s"), Message: store.KeyOf("m"), Count: 1}
		terms := store.Terms{MaxEvents: 10, Window: time.Hour, RepeatWindow: time.Hour, FlushInterval: time.Minute}
		for _, name := range []string{"a", "b", "c"} {
			w.Name = name
			if _, err := m.Merge(t.Context(), time.Now(), w, terms); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		settler.Discard(ctx, m)
		if owed, err := m.Due(t.Context(), time.Now(), math.MaxInt64, 10); err != nil || len(owed) != 0 {
			t.Errorf("%d debts are owed, %v; want none", len(owed), err)
		}
	})
}
