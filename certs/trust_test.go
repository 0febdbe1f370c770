package certs

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

func TestOnlyABundleThatRefusesTheCertificateStopsAReplica(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ours, theirs := fresh(t, 90*day), fresh(t, 90*day)
	served, err := ours.pair()
	if err != nil {
		t.Fatal(err)
	}
	const refused = "does not trust the serving certificate"
	tests := map[string]struct {
		hooks    []hook
		required bool
		at       time.Time
		want     string
	}{
		"no configuration":                   {nil, true, now, ""},
		"the CA":                             {[]hook{{"a", ours.ca}}, true, now, ""},
		"the CA among others":                {[]hook{{"a", join(theirs, ours)}}, true, now, ""},
		"another CA":                         {[]hook{{"a", theirs.ca}}, false, now, refused},
		"another CA in one of two":           {[]hook{{"a", ours.ca}, {"b", theirs.ca}}, false, now, "b " + refused},
		"no bundle, somebody else's":         {[]hook{{"a", nil}}, false, now, ""},
		"no bundle, one is to be injected":   {[]hook{{"a", nil}}, true, now, refused},
		"a bundle with no certificate":       {[]hook{{"a", []byte("-")}}, false, now, refused},
		"a certificate that has expired":     {[]hook{{"a", ours.ca}}, false, now.Add(91 * day), refused},
		"a certificate that is valid for no": {[]hook{{"a", ours.ca}}, false, now.Add(-2 * time.Hour), refused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := trust{configurations: configurations{service: service()}, required: tt.required}
			if err := asked.check(&served, now); err == nil {
				t.Error("ready before the configurations were looked at")
			}
			asked.looked = true
			asked.note(validatingConfiguration, tt.hooks)
			expect(t, asked.check(&served, tt.at), tt.want)
		})
	}

	elsewhere := trust{configurations: configurations{service: Service{"eventquota-system", "other"}}, looked: true}
	elsewhere.note(mutatingConfiguration, []hook{{"a", ours.ca}})
	expect(t, elsewhere.check(&served, now), "not other")
}

func TestACertificateMayComeWithIntermediates(t *testing.T) {
	t.Parallel()
	root, leaf := chain(t)
	asked := trust{configurations: configurations{service: service()}, looked: true}
	asked.note(mutatingConfiguration, []hook{{"a", root}})
	expect(t, asked.check(leaf, time.Now()), "")
	alone := &tls.Certificate{Certificate: leaf.Certificate[:1], Leaf: leaf.Leaf}
	expect(t, asked.check(alone, time.Now()), "unknown authority")
}

func service() Service { return Service{Namespace: "eventquota-system", Name: "eventquota"} }

// expect holds an error to a part of its text, or to be none.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want %q in it", err, want)
	}
}
