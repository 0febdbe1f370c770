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

// unreachableStore is a store without a connection.
type unreachableStore struct{ store.Store }

func (unreachableStore) Peek(context.Context, []store.Key, []store.Key) (engine.Snapshot, error) {
	return engine.Snapshot{}, errors.New("no connection")
}

func TestBadQueriesReturnOneError(t *testing.T) {
	t.Parallel()
	r := newExplainRig(t, "", "memory", newMemory(t))
	key := store.KeyOf("x").String()
	many := func(n int) string { return strings.Repeat("&key="+key, n)[1:] }
	for name, test := range map[string]struct {
		query  string
		status int
		want   string
	}{
		"one key":                       {"key=" + key, http.StatusOK, ""},
		"the maximum of keys":           {many(256), http.StatusOK, ""},
		"one key too many":              {many(257), http.StatusBadRequest, "key: must be given 1 to 256 times, not 257 times"},
		"no key":                        {"", http.StatusBadRequest, "key: must be given 1 to 256 times, not 0 times"},
		"a key that is too short":       {"key=abcd", http.StatusBadRequest, `key: "abcd": must be 32 hexadecimal digits`},
		"a key that is not hexadecimal": {"key=" + strings.Repeat("x", 32), http.StatusBadRequest, "must be 32 hexadecimal digits"},
		"a malformed query":             {"key=%zz", http.StatusBadRequest, "the query is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			r.endpoint.Config.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/explain?"+test.query, nil))
			status, body := w.Code, w.Body.String()
			if status != test.status || !strings.Contains(body, test.want) || test.want != "" && strings.Count(body, "\n") != 1 {
				t.Errorf("status %d, body %q, want %d, %q", status, body, test.status, test.want)
			}
		})
	}
}

// TestEndpointOmitsEventMessages checks that responses contain no message of an Event. An account that may read metrics need not have the
// right to read Events.
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
		t.Fatal("the store has no message of the aggregate")
	}
	response, err := Store{Name: "memory", Peeker: decides}.peekResponse(t.Context(), []store.Key{group})
	if err != nil {
		t.Fatal(err)
	}
	got, err := engine.Unmarshal(response.Groups[group])
	if err != nil {
		t.Fatal(err)
	}
	if has(got, "reconciled") || !has(got, "Reconciled") {
		t.Errorf("group %+v, want its reason but not its message", got)
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
		t.Errorf("error %v, state %+v, want the one known group", err, known)
	}
}
