package busiest_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/store"
)

func TestRowNamesAreUnambiguous(t *testing.T) {
	object := func(kind, namespace, name string) testWrite {
		return testWrite{Object: store.Object{Kind: kind, Namespace: namespace, Name: name}}
	}
	source := func(component, host string) testWrite {
		return testWrite{Source: store.Source{Component: component, Host: host}}
	}
	for says, test := range map[string]struct {
		by    busiest.Dimension
		write testWrite
		want  string
	}{
		"an object of a namespace":           {busiest.Object, object("Pod", "storm", "web-0"), "Pod storm/web-0"},
		"an object of the cluster":           {busiest.Object, object("Node", "", "node-1"), "Node node-1"},
		"an object of which nothing is said": {busiest.Object, object("", "", ""), `"" ""`},
		"a name with what separates":         {busiest.Object, object("Pod", "", "storm/web-0"), `Pod "storm/web-0"`},
		"a kind with what separates":         {busiest.Object, object("Pod a", "b", "c"), `"Pod a" b/c`},
		"a name that is quoted":              {busiest.Object, object("Pod", "a", `"b"`), `Pod a/"\"b\""`},
		"a name of wide letters":             {busiest.Object, object("Pod", "世界", "é"), "Pod 世界/é"},
		"a source of a host":                 {busiest.Source, source("kubelet", "node-1"), "kubelet/node-1"},
		"a source of no host":                {busiest.Source, source("scheduler", ""), "scheduler"},
		"a source that plays a host":         {busiest.Source, source("kubelet/node-1", ""), `"kubelet/node-1"`},
		"escape codes":                       {busiest.Source, source("\x1b[2Jx", "\r\n"), `"\x1b[2Jx"/"\r\n"`},
		"codes that turn writing around":     {busiest.Source, source("a\u202eb", ""), `"a\u202eb"`},
		"no UTF-8":                           {busiest.Source, source("a\xff", ""), `"a\xff"`},
		"an odd namespace":                   {busiest.Namespace, testWrite{Namespace: "\x00"}, `"\x00"`},
		"no namespace":                       {busiest.Namespace, testWrite{}, `""`},
		"a policy":                           {busiest.Policy, testWrite{Policy: "EventPolicy storm/own"}, "EventPolicy storm/own"},
		"a long name":                        {busiest.Policy, testWrite{Policy: strings.Repeat("世", 100)}, strings.Repeat("世", 84)},
		"a long name of no letters":          {busiest.Source, source(strings.Repeat("\x80", 300), ""), `"` + strings.Repeat(`\x80`, 249) + `"`},
	} {
		t.Run(says, func(t *testing.T) {
			c := busiest.NewCounter("a", epoch(), busiest.MaxTracked)
			c.CountDecision(test.write.decided(store.Admit))
			if rows := c.Snapshot(epoch()).Rankings[test.by].Rows; len(rows) != 1 || rows[0].Name != test.want {
				t.Errorf("%+v, want %q", rows, test.want)
			}
		})
	}
}

func FuzzRowNamesAreUnique(f *testing.F) {
	f.Add("Pod", "a", "b/c", "Pod", "a/b", "c")
	f.Add("Pod a", "", "b", "Pod", "", "a b")
	f.Add("", "", "\"\" \"\"", "\"\"", "", "")
	f.Fuzz(func(t *testing.T, kind, namespace, name, kind2, namespace2, name2 string) {
		if max(len(kind), len(namespace), len(name), len(kind2), len(namespace2), len(name2)) > busiest.MaxNameBytes {
			return
		}
		c, objects := busiest.NewCounter("a", epoch(), busiest.MaxTracked), map[[3]string]bool{}
		for _, s := range []store.Object{{Kind: kind, Namespace: namespace, Name: name}, {Kind: kind2, Namespace: namespace2, Name: name2}} {
			c.CountDecision((&testWrite{Object: s}).decided(store.Admit))
			objects[[3]string{s.Kind, s.Namespace, s.Name}] = true
		}
		names := map[string]bool{}
		for _, row := range c.Snapshot(epoch()).Rankings[busiest.Object].Rows {
			names[row.Name] = true
			if !utf8.ValidString(row.Name) || strings.ContainsAny(row.Name, "\x1b\n\r\x00\u202e") {
				t.Errorf("name %q", row.Name)
			}
		}
		if len(names) != len(objects) {
			t.Errorf("names %v of objects %v", names, objects)
		}
	})
}
