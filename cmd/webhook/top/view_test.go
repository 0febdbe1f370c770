package top

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/busiest"
)

func TestKeysSwitchWhatIsShown(t *testing.T) {
	start := view{by: busiest.Source, sort: "total"}
	for keys, want := range map[string]view{
		"":       {by: busiest.Source, sort: "total"},
		"n":      {by: busiest.Namespace, sort: "total"},
		"o":      {by: busiest.Object, sort: "total"},
		"p":      {by: busiest.Policy, sort: "total"},
		"ps":     {by: busiest.Source, sort: "total"},
		"a":      {by: busiest.Source, sort: "admitted"},
		"m":      {by: busiest.Source, sort: "merged"},
		"d":      {by: busiest.Source, sort: "dropped"},
		"r":      {by: busiest.Source, sort: "rate"},
		"rt":     {by: busiest.Source, sort: "total"},
		"od":     {by: busiest.Object, sort: "dropped"},
		"?":      {by: busiest.Source, sort: "total", help: true},
		"??":     {by: busiest.Source, sort: "total"},
		"?x":     {by: busiest.Source, sort: "total"},
		"xN 世\r": {by: busiest.Source, sort: "total"},
	} {
		v := start
		for _, k := range keys {
			v = v.key(string(k))
		}
		if v.by != want.by || v.sort != want.sort || v.help != want.help {
			t.Errorf("%q: %+v, want %+v", keys, v, want)
		}
	}
}

func TestAFailureToLookIsShownUntilItIsOver(t *testing.T) {
	v := view{by: busiest.Namespace, looks: looks(nil).add(storm(10)), sort: "total", limit: 5}
	page := func() string { return strings.Join(v.page(120, 12), "\n") }
	v = v.look(look{err: errors.New("lost\x1b[2J")})
	if got := page(); !strings.Contains(got, "not up to date: lost\ufffd[2J") || !strings.Contains(got, "kube-system") {
		t.Errorf("shown is\n%s\nwant what failed, and what was known", got)
	}
	v = v.look(look{sum: storm(12)})
	if got := page(); strings.Contains(got, "not up to date") || !strings.Contains(got, "312.0") {
		t.Errorf("shown is\n%s\nwant no failure, and rates", got)
	}
}
