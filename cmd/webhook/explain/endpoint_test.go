package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// unreachableStore is a store that does not answer.
type unreachableStore struct{ store.Store }

func (unreachableStore) Peek(context.Context, []store.Key, []store.Key) (engine.Snapshot, error) {
	return engine.Snapshot{}, errors.New("no connection")
}

func TestBadQueriesReturnOneError(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, "", "memory", newMemory(t))
	key := store.KeyOf("x").String()
	many := func(n int) string { return strings.Repeat("&key="+key, n)[1:] }
	for says, test := range map[string]struct {
		query  string
		status int
		want   string
	}{
		"one key":                   {"key=" + key, http.StatusOK, ""},
		"as many keys as may be":    {many(256), http.StatusOK, ""},
		"one key too many":          {many(257), http.StatusBadRequest, "key: must be given 1 to 256 times, not 257 times"},
		"nothing":                   {"", http.StatusBadRequest, "key: must be given 1 to 256 times, not 0 times"},
		"a key that is too short":   {"key=abcd", http.StatusBadRequest, `key: "abcd": must be 32 hexadecimal digits`},
		"a key that is no number":   {"key=" + strings.Repeat("x", 32), http.StatusBadRequest, "must be 32 hexadecimal digits"},
		"what is no query of a URL": {"key=%zz", http.StatusBadRequest, "the query is malformed"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			r.endpoint.Config.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/explain?"+test.query, nil))
			status, said := w.Code, w.Body.String()
			if status != test.status || !strings.Contains(said, test.want) || test.want != "" && strings.Count(said, "\n") != 1 {
				t.Errorf("%d %q, want %d with %q", status, said, test.status, test.want)
			}
		})
	}
}

// TestEndpointOmitsEventMessages holds that what it answers has no message: anyone who
// may read metrics need not be allowed to read Events.
func TestEndpointOmitsEventMessages(t *testing.T) {
	t.Parallel()
	decides := newMemory(t)
	r := newExplainRig(t, stormPolicies, "memory", decides).storm()
	group := admission.GroupKey(&r.events[4], "system:serviceaccount:kube-system:noisy-operator")
	state, err := decides.Peek(t.Context(), []store.Key{group}, nil)
	if err != nil {
		t.Fatal(err)
	}
	has := func(g *engine.Group, text string) bool {
		return bytes.Contains(g.Append(nil), []byte(text))
	}
	if !has(state.Groups[group], "reconciled") {
		t.Fatal("the store keeps no message of the aggregate")
	}
	a, err := Store{Name: "memory", Peeker: decides}.peekResponse(t.Context(), []store.Key{group})
	if err != nil {
		t.Fatal(err)
	}
	said, err := engine.Unmarshal(a.Groups[group])
	if err != nil {
		t.Fatal(err)
	}
	if has(said, "reconciled") || !has(said, "Reconciled") {
		t.Errorf("%+v, want it with its reason and without its message", said)
	}
}

func TestManyKeysAreQueriedInBatches(t *testing.T) {
	t.Parallel()
	decides := newMemory(t)
	r := newExplainRig(t, stormPolicies, "memory", decides).storm()
	group := admission.GroupKey(&r.events[0], "system:node:node-1")
	options := replicas.Options{Endpoint: r.endpoint.URL}
	replica, err := options.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	keys := []store.Key{group, group}
	for i := range 2 * maxKeys {
		keys = append(keys, store.KeyOf(fmt.Sprint(i)))
	}
	x := explainer{replica: replica}
	known, err := x.peek(t.Context(), keys)
	if err != nil || x.report.Store.Name != "memory" || len(known.Groups) != 1 || known.Groups[group] == nil {
		t.Errorf("%v, %+v; want the group that is known", err, known)
	}
}
