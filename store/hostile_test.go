package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// hostile makes writes of which no two are alike in what attack names, and
// which are alike in all else.
type hostile struct {
	*Memory
	t   *testing.T
	now time.Time
	rng *rand.Rand
	n   int
}

func newHostile(t *testing.T, bytes int64) *hostile {
	t.Helper()
	m, err := NewMemory(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return &hostile{Memory: m, t: t, now: epoch(), rng: rand.New(rand.NewPCG(1, 0))}
}

// attack is what is new in each write.
type attack struct{ group, name, message, reason, spam, quota bool }

func (h *hostile) write(a attack) (Write, Terms) {
	h.n++
	part := func(fresh bool, what string) string {
		if fresh {
			what += fmt.Sprint(h.n)
		}
		return strings.Clone(what) // as a decoder would make it
	}
	group := fmt.Sprint("web-6d4b75cb6d-", h.n)
	if !a.group {
		group = fmt.Sprint("web-6d4b75cb6d-", h.n/64-h.rng.IntN(8))
	}
	reason, message := part(a.reason, "FailedScheduling"), part(a.message, strings.Repeat("0/5 nodes are available. ", 8))
	w := Write{
		Group:     KeyOf(group),
		Exact:     KeyOf(reason, message),
		Similar:   KeyOf(reason),
		Message:   KeyOf(message),
		Name:      part(a.name, "web-6d4b75cb6d-4kqzb.17f1a9d6c8b2"),
		Reason:    reason,
		Text:      message,
		Count:     1,
		At:        h.now,
		Namespace: strings.Clone("production"),
		Subject: Subject{
			APIVersion: strings.Clone("v1"), Kind: strings.Clone("Pod"), Namespace: strings.Clone("production"), Name: strings.Clone(group),
			UID: strings.Clone("0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b11"), Component: strings.Clone("kubelet"), Host: strings.Clone("node-17"),
		},
	}
	return w, Terms{
		MaxEvents: 10, Window: 10 * time.Minute, RepeatWindow: time.Hour, FlushInterval: 10 * time.Second, KeepMessages: 5, ReservePerReason: 1,
		Spam:   Bucket{Key: KeyOf(part(a.spam, "spam")), Limit: Limit{Burst: 25, Every: 5 * time.Minute}},
		Quotas: []Bucket{{Key: KeyOf(part(a.quota, "quota")), Limit: Limit{Burst: 1 << 30, Every: time.Nanosecond}}},
	}
}

// create sends a CREATE through both phases and tells whether there was room.
func (h *hostile) create(a attack) bool {
	h.t.Helper()
	w, tm := h.write(a)
	d, err := h.Merge(h.t.Context(), h.now, w, tm)
	if err == nil && d.Verdict != Merge {
		_, err = h.Take(h.t.Context(), h.now, w, tm)
	}
	if err != nil && !errors.Is(err, ErrFull) {
		h.t.Fatal(err)
	}
	return err == nil
}

// settle settles up to n debts.
func (h *hostile) settle(n int, ahead time.Duration, outcome func() Outcome) {
	h.t.Helper()
	debts, err := h.Due(h.t.Context(), h.now, ahead, n)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, d := range debts {
		if err := h.Settle(h.t.Context(), h.now, d, outcome()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// check holds the books against what is there.
func (h *hostile) check() {
	h.t.Helper()
	var bytes int64
	var owing, idle int
	for key, g := range h.groups {
		if g.key != key || g.bytes != g.size() {
			h.t.Fatalf("group of %d bytes is booked with %d", g.size(), g.bytes)
		}
		bytes += g.bytes
		for _, r := range g.records {
			if r.owing() {
				owing++
				if item := h.due[r.index]; item.record != r || item.group != g {
					h.t.Fatal("a record is not where it should be in the due queue")
				}
			}
		}
		if g.idle != nil {
			idle++
		}
		if (g.idle != nil) == g.owing() {
			h.t.Fatalf("group owes: %t, idle: %t", g.owing(), g.idle != nil)
		}
	}
	switch {
	case bytes != h.bytes || bytes > h.bound:
		h.t.Fatalf("%d bytes are booked, %d estimated, bound %d", h.bytes, bytes, h.bound)
	case owing != len(h.due) || idle != h.idle.Len():
		h.t.Fatalf("%d records owe, %d in the queue; %d groups are idle, %d in the list", owing, len(h.due), idle, h.idle.Len())
	}
}
