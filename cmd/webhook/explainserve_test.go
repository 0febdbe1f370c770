package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// unreachable is a store that is away.
type unreachable struct{}

func (unreachable) Peek(context.Context, time.Time, []store.Key, []store.Key) (store.Peeked, error) {
	return store.Peeked{}, errors.New("redis is away")
}

func TestBadQuestionsOfExplainAreOneClearError(t *testing.T) {
	t.Parallel()
	memory := memoryOf(t)
	r := newExplainRig(t, "", memory, peekStore{"memory", memory})
	key := store.KeyOf("x").String()
	many := func(n int) string { return strings.Repeat("&group="+key, n)[1:] }
	for says, test := range map[string]struct {
		query  string
		status int
		want   string
	}{
		"one group":                 {"group=" + key, http.StatusOK, ""},
		"as many groups as may be":  {many(64), http.StatusOK, ""},
		"one bucket":                {"shared=" + key, http.StatusOK, ""},
		"one group too many":        {many(65), http.StatusBadRequest, "group: 65 are given, at most 64 may be"},
		"too many buckets":          {strings.ReplaceAll(many(257), "group", "shared"), http.StatusBadRequest, "shared: 257 are given, at most 256 may be"},
		"nothing":                   {"", http.StatusBadRequest, "group or shared: one must be given"},
		"a key that is too short":   {"group=abc", http.StatusBadRequest, "group: key of 3 characters: must be 32 hexadecimal digits"},
		"a key that is no number":   {"group=" + strings.Repeat("x", 32), http.StatusBadRequest, "must be 32 hexadecimal digits"},
		"an unknown parameter":      {"group=" + key + "&pod=web-0", http.StatusBadRequest, `"pod": must be group or shared`},
		"what is no query of a URL": {"group=%zz", http.StatusBadRequest, "the query is none of a URL"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			status, said := page(t, r.endpoint.URL+"/explain?"+test.query)
			if status != test.status || !strings.Contains(said, test.want) || test.want != "" && strings.Count(said, "\n") != 1 {
				t.Errorf("%d %q, want %d with %q", status, said, test.status, test.want)
			}
		})
	}
}

func TestAReplicaTellsOfAllItsStores(t *testing.T) {
	t.Parallel()
	memory := memoryOf(t)
	r := newExplainRig(t, stormPolicies, memory, peekStore{"redis", unreachable{}}, peekStore{"memory", memory}).storm()
	out, err := explain(t, "pod/web-0", "--kubeconfig", r.kubeconfig(), "--endpoint", r.endpoint.URL, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var e explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	if len(e.Stores) != 2 || e.Stores[0].Error != "redis is away" || e.Stores[1].Error != "" {
		t.Errorf("stores %+v, want Redis away and the memory that decides meanwhile", e.Stores)
	}
	if len(e.Sources) == 0 || e.Sources[0].Store != "memory" || len(e.Sources[0].Next) == 0 {
		t.Errorf("sources %+v, want what the memory would decide", e.Sources)
	}
	if !strings.Contains(strings.Join(e.Notes, "\n"), "store redis cannot be looked into: redis is away") {
		t.Errorf("notes %q, want one about Redis", e.Notes)
	}
}

// TestAServerExplains holds that a replica that serves answers, and what it says of
// what it has merged.
func TestAServerExplains(t *testing.T) {
	s := serving(t, newAPIServer(t), func(*serveOptions) {})
	eventually(t, "ready", func() bool { return get(t, "http://"+s.opts.HealthAddress+"/readyz") == http.StatusOK })
	status, said := page(t, "http://"+s.opts.MetricsAddress+"/explain?group="+store.KeyOf("nobody").String())
	if status != http.StatusOK || !strings.Contains(said, `"name":"memory"`) {
		t.Errorf("%d %s, want what its memory has", status, said)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
