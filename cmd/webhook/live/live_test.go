package live

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/store"
)

func epoch() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }

// countsAfter returns the counts of a replica after some seconds of a storm, with the names of all replicas. Each second, the kubelet
// writes ten Events about a pod in shop: one is stored, two are merged and seven are dropped. An operator writes one in ops.
func countsAfter(seconds int64, names ...string) busiest.Live {
	shop := busiest.Counts{Admitted: seconds, Merged: 2 * seconds, Dropped: 7 * seconds}
	ops := busiest.Counts{Merged: 1 + seconds}
	ranking := func(a, b string) busiest.Ranking {
		return busiest.Ranking{Total: shop.Add(ops), Rows: []busiest.Row{{Name: b, Counts: ops}, {Name: a, Counts: shop}}}
	}
	l := busiest.Live{
		Sum: busiest.Sum{Rankings: map[busiest.Dimension]busiest.Ranking{
			busiest.Namespace: ranking("shop", "ops"), busiest.Source: ranking("kubelet", "operator"),
			busiest.Object: ranking("Pod shop/web", "Node n1"), busiest.Reason: ranking("Normal Started", "Warning Failed"),
			busiest.Policy: {Total: shop.Add(ops)},
		}},
		Breakdown: busiest.Breakdown{
			Writes: 3 * seconds,
			Details: []busiest.Detail{
				{Namespace: "ops", Source: "operator", Reason: "Warning Failed", Policy: "default", Counts: ops},
				{Namespace: "shop", Source: "kubelet", Reason: "Normal Started", Policy: "default", Counts: busiest.Counts{Admitted: shop.Admitted, Merged: shop.Merged}},
				{Namespace: "shop", Source: "kubelet", Reason: "Normal Started", Policy: "floor", Counts: busiest.Counts{Dropped: shop.Dropped}},
			},
			Objects: []busiest.InvolvedObject{
				{Kind: "Node", Name: "n1", MainSource: busiest.MainSource{Source: "operator"}},
				{Kind: "Pod", Namespace: "shop", Name: "web", Workload: "Deployment shop/web", MainSource: busiest.MainSource{Source: "kubelet"}},
			},
			Buckets: []busiest.Bucket{
				{Key: store.KeyOf("full"), Name: "full", Limit: store.Limit{Burst: 10, Every: time.Second}, Tokens: new(10)},
				{Key: store.KeyOf("unknown"), Name: "unknown", Limit: store.Limit{Burst: 10}},
				{Key: store.KeyOf("drained"), Name: "drained", Limit: store.Limit{Burst: 10, Every: 2 * time.Second, Reserve: 2}, Tokens: new(5),
					Counts: busiest.Counts{Admitted: seconds}},
				{Key: store.KeyOf("refusing"), Name: "refusing", Limit: store.Limit{Burst: 10, Every: time.Second}, Tokens: new(0),
					Counts: busiest.Counts{Admitted: seconds, Dropped: 7 * seconds}},
			},
		},
	}
	for _, name := range names {
		l.Replicas = append(l.Replicas, busiest.Replica{Name: name, Since: epoch(), At: epoch().Add(time.Duration(seconds) * time.Second)})
	}
	return l
}

// viewOf returns the view of a watcher that got these answers one second apart.
func viewOf(lives ...busiest.Live) View {
	var before, now *sample
	for i, l := range lives {
		before, now = now, &sample{l, epoch().Add(time.Duration(i) * time.Second)}
	}
	if before == nil {
		before = now
	}
	return newView(before, now)
}

func TestViewHasRatesAndTotals(t *testing.T) {
	v := viewOf(countsAfter(10, "a"), countsAfter(11, "a"))
	shop := Figures{Rates{Admitted: 1, Merged: 2, Dropped: 7}, busiest.Counts{Admitted: 11, Merged: 22, Dropped: 77}}
	ops := Figures{Rates{Merged: 1}, busiest.Counts{Merged: 12}}
	if want := (Rates{1, 3, 7, 3}); v.Rates != want || v.Rates.Decided() != 11 || v.Seconds != 1 || v.Total != shop.Total.Add(ops.Total) {
		t.Errorf("rates %+v, want %+v", v.Rates, want)
	}
	for by, names := range map[busiest.Dimension][2]string{
		busiest.Namespace: {"shop", "ops"}, busiest.Source: {"kubelet", "operator"},
		busiest.Object: {"Pod shop/web", "Node n1"}, busiest.Reason: {"Normal Started", "Warning Failed"},
	} {
		want := Ranking{Rows: []Row{{names[0], shop}, {names[1], ops}}}
		if got := v.Rankings[by]; !reflect.DeepEqual(got, want) {
			t.Errorf("ranking by %s is %+v, want %+v", by, got, want)
		}
	}
	if got := v.Rankings[busiest.Policy]; len(got.Rows) != 0 || got.Others != v.Total.Matched() {
		t.Errorf("ranking by policy is %+v, want others only", got)
	}
	if got, want := v.Sources("shop"), []Row{{"kubelet", shop}}; !reflect.DeepEqual(got, want) {
		t.Errorf("sources %+v, want %+v", got, want)
	}
	if got, want := v.Reasons("", "operator"), []Row{{"Warning Failed", ops}}; !reflect.DeepEqual(got, want) {
		t.Errorf("reasons %+v, want %+v", got, want)
	}
	pod := Object{"Pod shop/web", "Pod", "shop", "web", "Deployment shop/web", "kubelet", shop}
	if got := v.ObjectsOf("shop", "kubelet"); !reflect.DeepEqual(got, []Object{pod}) {
		t.Errorf("objects %+v, want %+v", got, pod)
	}
	if got, want := pod.Title(), "Pod shop/web of Deployment shop/web"; got != want {
		t.Errorf("the title is %q, want %q", got, want)
	}
	if got := v.ObjectsOf("ops", ""); len(got) != 1 || got[0].Name != "n1" {
		t.Errorf("objects of ops are %+v, want the node", got)
	}
}

func TestNewRowsHaveRates(t *testing.T) {
	before := countsAfter(10, "a")
	before.Details = before.Details[:1]
	v := viewOf(before, countsAfter(11, "a"))
	if got := v.Sources("shop"); len(got) != 1 || got[0].Rates.Dropped != 77 {
		t.Errorf("sources %+v, want the rate of all writes of a new source", got)
	}
}

func TestBucketsAreSortedByFillRatio(t *testing.T) {
	v := viewOf(countsAfter(10, "a"), countsAfter(11, "a"))
	var names []string
	for _, b := range v.Buckets {
		names = append(names, b.Name)
	}
	if got := strings.Join(names, " "); got != "refusing drained full unknown" {
		t.Errorf("the order is %s, want refusing drained full unknown", got)
	}
	refusing, drained, full := v.Buckets[0], v.Buckets[1], v.Buckets[2]
	if !refusing.Refuses || refusing.EmptyIn != nil || refusing.Rates.Dropped != 7 || refusing.PerSecond != 1 || refusing.FillRatio() != 0 {
		t.Errorf("bucket %+v, want one that refuses 7 per second", refusing)
	}
	// Three tokens are left for Normal Events, and the bucket loses one every two seconds.
	if drained.Refuses || drained.EmptyIn == nil || *drained.EmptyIn != 6 || drained.FillRatio() != .5 {
		t.Errorf("bucket %+v, want one that is empty in 6 s", drained)
	}
	if full.Refuses || full.EmptyIn != nil || full.FillRatio() != 1 {
		t.Errorf("bucket %+v, want a full one", full)
	}
}

func TestFirstViewHasNoRates(t *testing.T) {
	v := viewOf(countsAfter(10, "a"))
	if v.Seconds != 0 || v.Rates != (Rates{}) || v.Total.Dropped != 70 || v.Rankings[busiest.Source].Rows[0].Name != "kubelet" {
		t.Errorf("the first view is %+v, want totals without rates", v)
	}
	silent := countsAfter(10, "a", "b")
	silent.Replicas[0].At = epoch().Add(-time.Minute)
	if r := viewOf(silent).Replicas; !r[0].Silent || r[1].Silent {
		t.Errorf("replicas %+v, want the first one silent", r)
	}
}

// watchAnswers watches a replica with these answers, one per poll; nil is a failure. It returns the views, and how often Open was called.
func watchAnswers(t *testing.T, namespace string, answers ...*busiest.Live) (views []View, opened int) {
	t.Helper()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/live" {
			t.Errorf("unexpected request for %s", r.URL.Path)
		}
		a := answers[min(asked, len(answers)-1)]
		if asked++; a == nil {
			http.Error(w, "bad\x1b[2J", http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer s.Close()
	open := func(ctx context.Context) (*replicas.Replica, error) {
		if err := ctx.Err(); err != nil { // the views have ended
			return nil, err
		}
		opened++
		if opened == 2 {
			return nil, errors.New("no replica is ready")
		}
		return (&replicas.Options{Endpoint: s.URL}).Open(ctx)
	}
	ctx, end := context.WithCancel(t.Context())
	all := Watch(ctx, nil, Options{Open: open, Namespace: namespace, Interval: time.Millisecond, Points: 3})
	for range len(answers) {
		views = append(views, <-all)
	}
	end()
	for range all { // until the channel is closed
	}
	return views, opened
}

// TestWatchContinuesAfterReplicaFailure has a poll that fails, and then an Open that fails. The next poll finds two replicas.
func TestWatchContinuesAfterReplicaFailure(t *testing.T) {
	one, two, more := countsAfter(10, "a"), countsAfter(12, "a"), countsAfter(13, "a", "b")
	views, opened := watchAnswers(t, "", &one, &two, nil, &more, &more)
	if opened != 3 {
		t.Errorf("Open was called %d times, want 3", opened)
	}
	for i, want := range []struct {
		problem  string
		replicas int
		known    bool
	}{
		{"", 1, false}, {"", 1, true}, {"--endpoint: 502 Bad Gateway: bad\ufffd[2J", 1, true}, {"no replica is ready", 1, true}, {"", 2, false},
	} {
		v := views[i]
		if v.Problem != want.problem || len(v.Replicas) != want.replicas || (v.Seconds > 0) != want.known {
			t.Errorf("view %d: %q, %d replicas, %v s; want %+v", i, v.Problem, len(v.Replicas), v.Seconds, want)
		}
	}
	last := views[len(views)-1].Timeline
	if len(last) != 3 || last[0].Seconds != 0 || last[1].Seconds != 0 || last[2].Seconds != 0 {
		t.Errorf("the timeline is %+v, want the last three polls, all without rates", last)
	}
	if first := views[1].Timeline; len(first) != 2 || first[1].Rates != views[1].Rates {
		t.Errorf("the timeline is %+v, want two polls, the last with the rates of the view", first)
	}
	if views[2].Rates != views[1].Rates || !views[2].At.Equal(views[1].At) {
		t.Error("the view after a failed poll does not have the figures of the last successful one")
	}
}

func TestReplicaChangesInterruptRates(t *testing.T) {
	one, two, both := countsAfter(10, "a"), countsAfter(12, "a", "b"), countsAfter(13, "a", "b")
	views, _ := watchAnswers(t, "shop", &one, &two, &both, &one)
	for i, known := range []bool{false, false, true, false} {
		if (views[i].Seconds > 0) != known || views[i].Problem != "" {
			t.Errorf("view %d covers %v s with the problem %q, want rates: %t, and no problem", i, views[i].Seconds, views[i].Problem, known)
		}
	}
	if views[2].Rates.Dropped <= 0 || views[2].Namespace != "shop" || len(views[2].Details) != 2 {
		t.Errorf("view %+v, want only shop", views[2])
	}
}

// TestViewJSON checks that a View survives encoding.
func TestViewJSON(t *testing.T) {
	v := viewOf(countsAfter(10, "a"), countsAfter(11, "a"))
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var decoded View
	if err := json.Unmarshal(encoded, &decoded); err != nil || !reflect.DeepEqual(v, decoded) {
		t.Errorf("error %v: %s is decoded as\n%+v, want\n%+v", err, encoded, decoded, v)
	}
}
