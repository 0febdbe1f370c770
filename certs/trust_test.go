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
		"the CA":                             {[]hook{{name: "a", bundle: ours.ca}}, true, now, ""},
		"the CA among others":                {[]hook{{name: "a", bundle: join(theirs, ours)}}, true, now, ""},
		"another CA":                         {[]hook{{name: "a", bundle: theirs.ca}}, false, now, refused},
		"another CA in one of two":           {[]hook{{name: "a", bundle: ours.ca}, {name: "b", bundle: theirs.ca}}, false, now, "b " + refused},
		"no bundle, somebody else's":         {[]hook{{name: "a", bundle: nil}}, false, now, ""},
		"no bundle, one is to be injected":   {[]hook{{name: "a", bundle: nil}}, true, now, refused},
		"a bundle with no certificate":       {[]hook{{name: "a", bundle: []byte("-")}}, false, now, refused},
		"a certificate that has expired":     {[]hook{{name: "a", bundle: ours.ca}}, false, now.Add(91 * day), refused},
		"a certificate that is valid for no": {[]hook{{name: "a", bundle: ours.ca}}, false, now.Add(-2 * time.Hour), refused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := trust{service: service(), required: tt.required}
			if err := asked.check(&served, nil, now); err == nil {
				t.Error("ready before the configurations were looked at")
			}
			asked.looked = true
			asked.note(validatingConfiguration, tt.hooks)
			expect(t, asked.check(&served, nil, tt.at), tt.want)
		})
	}

	elsewhere := trust{service: Service{"eventquota-system", "other"}, looked: true}
	elsewhere.note(mutatingConfiguration, []hook{{name: "a", bundle: ours.ca}})
	expect(t, elsewhere.check(&served, nil, now), "not other")
}

func TestACertificateMayComeWithIntermediates(t *testing.T) {
	t.Parallel()
	root, leaf := chain(t)
	asked := trust{service: service(), looked: true}
	asked.note(mutatingConfiguration, []hook{{name: "a", bundle: root}})
	expect(t, asked.check(leaf, nil, time.Now()), "")
	alone := &tls.Certificate{Certificate: leaf.Certificate[:1], Leaf: leaf.Leaf}
	expect(t, asked.check(alone, nil, time.Now()), "unknown authority")
}

func service() Service { return Service{Namespace: "eventquota-system", Name: "eventquota"} }

// expect holds an error to a part of its text, or to be none.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want %q in it", err, want)
	}
}
