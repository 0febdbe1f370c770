package ui

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/live"
)

// view returns a View with a storm in shop, and a few other writes.
func view() *live.View {
	f := func(admitted, dropped float64) live.Figures {
		return live.Figures{Rates: live.Rates{Admitted: admitted, Dropped: dropped}, Total: busiest.Counts{Admitted: int64(admitted), Dropped: int64(dropped)}}
	}
	ranking := func(names ...string) live.Ranking {
		return live.Ranking{Rows: []live.Row{{Name: names[0], Figures: f(1, 9)}, {Name: names[1], Figures: f(3, 0)}}, Others: 4}
	}
	return &live.View{
		Seconds: 2, Replicas: []live.Replica{{Silent: true}, {}},
		Rankings: map[busiest.Dimension]live.Ranking{
			busiest.Namespace: ranking("shop", "ops"), busiest.Source: ranking("kubelet", "operator"), busiest.Object: ranking("Pod shop/web", "Node n1"),
			busiest.Reason: ranking("Normal Started", "Warning Failed"), busiest.Policy: ranking("floor", "default"),
		},
		Details: []live.Detail{
			{Namespace: "shop", Source: "kubelet", Reason: "Normal Started", Policy: "floor", Figures: f(1, 9)},
			{Namespace: "ops", Source: "operator", Reason: "Warning Failed", Policy: "default", Figures: f(3, 0)},
		},
		Objects: []live.Object{
			{Row: "Pod shop/web", Kind: "Pod", Namespace: "shop", Name: "web", Workload: "Job shop/web", Source: "kubelet", Figures: f(1, 9)},
			{Row: "Node n1", Kind: "Node", Name: "n1", Source: "operator", Figures: f(3, 0)},
		},
		Buckets: []live.Bucket{
			{Policy: "floor", Name: "shared", Tokens: new(0), Burst: 9, Refuses: true, Source: "kubelet", Figures: f(0, 1)},
			{Policy: "floor", Name: "ns", For: "shop", Namespace: "shop", Tokens: new(0), Burst: 9, Refuses: true, Source: "kubelet", Figures: f(1, 9)},
			{Policy: "floor", Name: "ns", For: "ops", Namespace: "ops", Tokens: new(4), Burst: 9, EmptyIn: new(90.0), Source: "operator", Figures: f(3, 0)},
			{Policy: "floor", Name: "soon", Tokens: new(5), Burst: 9, EmptyIn: new(20.0)},
			{Policy: "floor", Name: "late", Tokens: new(8), Burst: 9, EmptyIn: new(4000.0)},
			{Policy: "floor", Name: "full", Tokens: new(9), Burst: 9},
		},
	}
}

// selectRows returns a line for each row that a query selects: its name, and the parameters of its link.
func selectRows(t *testing.T, query string) string {
	t.Helper()
	s, err := parseSelection(query)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range s.messageFor(view()).Rows {
		line := r.Name
		if r.Into != nil {
			line += fmt.Sprint(" ", r.Into)
		}
		all = append(all, strings.ReplaceAll(line, "map", ""))
	}
	return strings.Join(all, "\n")
}

func TestRowDrillDown(t *testing.T) {
	for query, want := range map[string]string{
		"":                             "shop [by:source namespace:shop]\nops [by:source namespace:ops]",
		"sort=admitted":                "ops [by:source namespace:ops]\nshop [by:source namespace:shop]",
		"by=source&namespace=shop":     "kubelet [by:object namespace:shop source:kubelet]",
		"by=object&source=kubelet":     "Pod shop/web of Job shop/web [by:object in:shop kind:Pod name:web source:kubelet]",
		"by=object&namespace=ops":      "Node n1 [by:object in:default kind:Node name:n1 namespace:ops]",
		"by=reason&namespace=ops":      "Warning Failed [by:source namespace:ops reason:Warning Failed]",
		"by=policy":                    "floor [by:source policy:floor]\ndefault [by:source policy:default]",
		"by=source&policy=floor":       "kubelet [by:object policy:floor source:kubelet]",
		"by=quota":                     "shared: floor\nns of shop: floor [by:source namespace:shop]\nns of ops: floor [by:source namespace:ops]\nsoon: floor\nlate: floor\nfull: floor",
		"by=quota&namespace=ops":       "shared: floor\nns of ops: floor [by:source namespace:ops]\nsoon: floor\nlate: floor\nfull: floor",
		"by=quota&source=operator":     "ns of ops: floor [by:source namespace:ops]",
		"by=quota&policy=other":        "",
		"by=source&namespace=no%2Fone": "",
	} {
		if got := selectRows(t, query); got != want {
			t.Errorf("query %q shows\n%s\nwant\n%s", query, got, want)
		}
	}
	if got := selectRows(t, "by=quota&sort=dropped"); !strings.HasPrefix(got, "ns of shop: floor [by:source namespace:shop]\nshared: floor\n") {
		t.Errorf("quotas sorted by dropped are\n%s", got)
	}
}

func TestMessageListsRefusingBuckets(t *testing.T) {
	s, err := parseSelection("by=source")
	if err != nil {
		t.Fatal(err)
	}
	m := s.messageFor(view())
	names := func(all []live.Bucket) (names []string) {
		for _, b := range all {
			names = append(names, b.Name+" "+b.For)
		}
		return names
	}
	if got, want := names(m.Refusing), []string{"ns shop", "shared "}; !reflect.DeepEqual(got, want) {
		t.Errorf("Refusing has %q, want %q", got, want)
	}
	if got, want := names(m.Next), []string{"soon ", "ns ops"}; !reflect.DeepEqual(got, want) {
		t.Errorf("Next has %q, want %q", got, want)
	}
	if m.Replicas != 2 || m.Silent != 1 || m.Others != 4 || m.More != 0 {
		t.Errorf("the message is %+v, want 2 replicas, 1 of them silent, and 4 writes in no row", m)
	}
	s.filter.Namespace = "shop"
	if m := s.messageFor(view()); m.Others != 0 {
		t.Errorf("Others is %d with a filter, want 0", m.Others)
	}
}

func TestMessageIsBounded(t *testing.T) {
	v := view()
	ranking := live.Ranking{}
	for i := range 1000 {
		ranking.Rows = append(ranking.Rows, live.Row{Name: fmt.Sprint(i)})
		v.Buckets = append(v.Buckets, live.Bucket{Name: fmt.Sprint(i), Refuses: i%2 == 0, EmptyIn: new(1.0)})
	}
	v.Rankings[busiest.Reason] = ranking
	s, err := parseSelection("by=reason")
	if err != nil {
		t.Fatal(err)
	}
	if m := s.messageFor(v); len(m.Rows) != 200 || m.More != 800 || len(m.Refusing) != 10 || len(m.Next) != 10 {
		t.Errorf("%d rows and %d more, %d refusing and %d next buckets, want 200, 800, 10 and 10", len(m.Rows), m.More, len(m.Refusing), len(m.Next))
	}
}
