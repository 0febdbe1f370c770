package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// refusing is a refuser that refuses everything, and what it handed over.
type refusing struct {
	*refuser
	terms Terms
	got   []refusal
	err   error
}

func newRefusing() *refusing {
	r := &refusing{terms: spamTerms(0, 0, time.Minute)}
	r.refuser = newRefuser(nil, func(_ context.Context, list []refusal) error {
		for _, f := range list {
			f.names, f.more = slices.Clone(f.names), slices.Clone(f.more)
			r.got = append(r.got, f)
		}
		return r.err
	})
	return r
}

func (r *refusing) drop(w Write) bool {
	r.learn(epoch(), w, r.terms, forever, time.Time{})
	_, ok := r.refuse(epoch(), w, r.terms)
	return ok
}

// told is f in words.
func (f refusal) told() string {
	text := fmt.Sprintf("%s/%s:", f.namespace, f.subject.Name)
	for _, n := range f.names {
		name := "?"
		for _, known := range []string{"a", "b", "c"} {
			if KeyOf(known) == n.name {
				name = known
			}
		}
		text += fmt.Sprintf(" %s %s %d", name, n.reason, n.count)
	}
	return text
}

func TestRefusalsAreHandedOver(t *testing.T) {
	r := newRefusing()
	for _, w := range []Write{
		refusedWrite("pod", "a", "Failed", 1),
		refusedWrite("pod", "b", "Killing", 7),
		refusedWrite("pod", "a", "Failed", 3),
		refusedWrite("pod", "a", "Failed", 2),
		refusedWrite("other", "c", "Failed", 1),
	} {
		if !r.drop(w) {
			t.Errorf("%s was not refused", w.Name)
		}
	}
	if err := r.handOver(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, f := range r.got {
		told = append(told, f.told())
		if f.group != KeyOf(f.subject.Name) || f.flush != r.terms.FlushInterval || f.window != r.terms.Window || !f.first.Equal(epoch()) || !f.last.Equal(epoch()) {
			t.Errorf("%+v, want what a notice needs", f)
		}
	}
	slices.Sort(told)
	if want := []string{"default/other: c Failed 1", "default/pod: b Killing 7 a Failed 3"}; !slices.Equal(told, want) {
		t.Errorf("handed over %q, want %q", told, want)
	}
	if r.bytes.Load() != 0 {
		t.Errorf("%d bytes are counted although nothing waits", r.bytes.Load())
	}
	if err := r.handOver(t.Context(), false); err != nil || len(r.got) != 2 {
		t.Errorf("%d refusals and %v, want none handed over twice", len(r.got), err)
	}
}

func TestRefusalsWaitAfterAnError(t *testing.T) {
	r := newRefusing()
	r.err = errors.New("away")
	for round := range 3 {
		r.got = nil
		if !r.drop(refusedWrite("pod", "a", "Failed", int64(round+1))) {
			t.Error("not refused")
		}
		if err := r.handOver(t.Context(), false); !errors.Is(err, r.err) {
			t.Errorf("error %v, want %v", err, r.err)
		}
	}
	r.err, r.got = nil, nil
	if err := r.handOver(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	// What came since the first one failed is one more, which follows it.
	for i, count := range []int64{1, 3} {
		if i >= len(r.got) {
			break
		}
		f := r.got[i]
		if f.serial != int64(i+1) || f.names[0].count != count || f.replica.IsZero() {
			t.Errorf("refusal %d: serial %d, count %d; want count %d", i, f.serial, f.names[0].count, count)
		}
	}
	if len(r.got) != 2 || r.bytes.Load() != 0 {
		t.Errorf("%d refusals were handed over and %d bytes wait, want 2 and none", len(r.got), r.bytes.Load())
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	r := newRefusing()
	r.bound = 100_000
	r.err = errors.New("away")
	refused := 0
	for i := range 2000 {
		if r.drop(refusedWrite(fmt.Sprint("pod", i%20), fmt.Sprint(i), "Failed", 1)) {
			refused++
		}
		if i%100 == 0 {
			_ = r.handOver(t.Context(), false)
		}
	}
	if refused == 2000 || refused < 100 || r.bytes.Load() > r.bound+owedBytes+refusedNameBytes+100 {
		t.Errorf("%d refused, %d bytes wait, want the bound of %d to hold", refused, r.bytes.Load(), r.bound)
	}
	r.err, r.got = nil, nil
	if err := r.handOver(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range r.got {
		n += len(f.names)
	}
	if n != refused {
		t.Errorf("%d were handed over of %d that were refused", n, refused)
	}
	for i := range maxReasons + 1 {
		if ok := r.drop(refusedWrite("pod", "a", fmt.Sprint("Reason", i), 1)); ok != (i < maxReasons) {
			t.Errorf("reason %d: refused %t", i+1, ok)
		}
	}
}
