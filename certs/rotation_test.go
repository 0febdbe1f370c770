package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// host is the host of the Service in these tests.
const host = "eventquota.eventquota-system.svc"

func TestNextStep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	// end is the remaining lifetime of first.
	end := 90*day - backdated
	current := rotation{bundle: first.ca, serving: first}
	prepared := rotation{bundle: join(first, second), serving: first, next: second}
	noNextKey := rotation{bundle: join(first, second), serving: first, next: issued{cert: second.cert}}

	tests := map[string]struct {
		r     rotation
		host  string
		after time.Duration
		ready bool
		want  rotationStep
	}{
		"nothing stored":                  {rotation{}, host, 0, false, stepIssue},
		"just issued":                     {current, host, 0, false, stepNone},
		"almost a day old":                {current, host, day - time.Minute, false, stepNone},
		"a day old":                       {current, host, day + time.Minute, false, stepPrepare},
		"expired":                         {current, host, end + time.Minute, false, stepIssue},
		"a clock 50 minutes behind":       {current, host, -50 * time.Minute, false, stepNone},
		"another Service":                 {current, "quota.eventquota-system.svc", 0, false, stepIssue},
		"its CA is not in the bundle":     {rotation{bundle: second.ca, serving: first}, host, 0, false, stepIssue},
		"the key of another certificate":  {rotation{bundle: first.ca, serving: issued{cert: first.cert, key: second.key}}, host, 0, false, stepIssue},
		"no key":                          {rotation{bundle: first.ca, serving: issued{cert: first.cert}}, host, 0, false, stepIssue},
		"a truncated certificate":         {rotation{bundle: first.ca, serving: issued{cert: first.cert[:100], key: first.key}}, host, 0, false, stepIssue},
		"not valid yet":                   {current, host, -2 * time.Hour, false, stepIssue},
		"prepared for 19 minutes":         {prepared, host, 19 * time.Minute, true, stepNone},
		"prepared for 21 minutes":         {prepared, host, 21 * time.Minute, true, stepActivate},
		"prepared, but not ready":         {prepared, host, 21 * time.Minute, false, stepNone},
		"not ready for a month":           {prepared, host, 30 * day, false, stepNone},
		"only the next one can be served": {rotation{bundle: second.ca, serving: first, next: second}, host, 0, false, stepActivate},
		"neither can be served":           {prepared, host, end + time.Minute, true, stepIssue},
		"the next one has no key":         {noNextKey, host, 2 * time.Hour, true, stepNone},
		"no next key, and one is due":     {noNextKey, host, 2 * day, true, stepPrepare},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.r.nextStep(tt.host, now.Add(tt.after), defaultTiming(), "", tt.ready); got != tt.want {
				t.Errorf("next step %s, want %s", got, tt.want)
			}
		})
	}
	for leaked, want := range map[string]rotationStep{Segment(first.key): stepPrepare, Segment(second.key): stepNone} {
		if got := current.nextStep(host, now, defaultTiming(), leaked, false); got != want {
			t.Errorf("next step when others may know %s: %s, want %s", leaked, got, want)
		}
	}
	if got := prepared.nextStep(host, now, defaultTiming(), Segment(first.key), false); got != stepNone {
		t.Errorf("next step when others may know the path that is being replaced: %s, want %s", got, stepNone)
	}
}

func TestApplyStep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first, second, third := fresh(t, 90*day), fresh(t, 90*day), fresh(t, 90*day)
	expired := fresh(t, backdated-time.Minute)
	bundle := append([]byte("# ours\n"), join(expired, first, first, second)...)
	earlier := rotation{bundle: bundle, serving: first, next: second}

	tests := map[rotationStep]struct{ serving, next []byte }{
		stepNone:     {first.cert, second.cert},
		stepIssue:    {third.cert, nil},
		stepPrepare:  {first.cert, third.cert},
		stepActivate: {second.cert, nil},
	}
	for s, want := range tests {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			var made issued
			wantTrusted := []issued{first, second} // each once; a replica that lags may still serve the earlier one
			if s == stepIssue || s == stepPrepare {
				made, wantTrusted = third, append(wantTrusted, third)
			}
			got := earlier.apply(s, made, now)
			if !bytes.Equal(got.serving.cert, want.serving) || !bytes.Equal(got.next.cert, want.next) {
				t.Errorf("wrong certificates: serving\n%s\nnext\n%s", got.serving.cert, got.next.cert)
			}
			if !bytes.Equal(got.bundle, join(wantTrusted...)) {
				t.Errorf("trusts\n%s\nwant the CAs of current and earlier certificates that have not expired", got.bundle)
			}
			if again := rotationOf(got.data()); !bytes.Equal(again.next.key, got.next.key) || !bytes.Equal(again.bundle, got.bundle) ||
				!bytes.Equal(again.serving.key, got.serving.key) {
				t.Error("the rotation changes when it is written to the Secret and read again")
			}
			if step := got.nextStep(host, now, defaultTiming(), "", false); step != stepNone {
				t.Errorf("next step right after it: %s, want none", step)
			}
		})
	}
}

// TestBundleKeepsNewestCAs checks that a bundle is bounded, and that a CA that is added again becomes the newest.
func TestBundleKeepsNewestCAs(t *testing.T) {
	t.Parallel()
	var all []issued
	for range maxTrusted + 1 {
		all = append(all, fresh(t, 90*day))
	}
	if got := newest(time.Now(), join(all...)); !bytes.Equal(got, join(all[1:]...)) {
		t.Errorf("of %d CAs, want the last %d, got\n%s", len(all), maxTrusted, got)
	}
	if got := newest(time.Now(), join(all...), all[0].ca); !bytes.Equal(got, join(append(all[2:], all[0])...)) {
		t.Errorf("with the first CA added again, want it last, got\n%s", got)
	}
}

func TestAcceptedSegments(t *testing.T) {
	t.Parallel()
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	one, other := Segment(first.key), Segment(second.key)
	alone := rotation{serving: first}
	prepared := rotation{serving: first, next: second}
	half := defaultTiming().overlap / 2
	for name, test := range map[string]struct {
		r            rotation
		current      string
		after        time.Duration
		want         string
		alsoAccepted string // beside one
	}{
		"no segment yet":                                      {alone, "", 0, one, ""},
		"another segment":                                     {alone, other, 0, one, ""},
		"the next one, after half of the overlap":             {prepared, one, half + time.Second, other, other},
		"the next one, before half of the overlap":            {prepared, one, half - time.Second, one, other},
		"the next one, in use early by a clock that is ahead": {prepared, other, 0, other, other},
		"another segment, with a next one":                    {prepared, "x", 0, one, other},
		"a next one that cannot be served":                    {rotation{serving: first, next: issued{key: second.key}}, "", day, one, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := second.at().Add(test.after)
			if got := test.r.wantedSegment(test.current, now, defaultTiming()); got != test.want {
				t.Errorf("wanted segment %s, want %s", got, test.want)
			}
			for _, segment := range []string{"", one[1:], one + "a", strings.ToUpper(one), "/" + one, Segment(nil), other} {
				if got, want := accepts(test.r.segments(), segment), segment == test.alsoAccepted && segment != ""; got != want {
					t.Errorf("accepts %q: %t, want %t", segment, got, want)
				}
			}
			if !accepts(test.r.segments(), one) {
				t.Errorf("does not accept %q", one)
			}
		})
	}
	for path, want := range map[string]string{"": "", "/": "", "/mutate": "", "/mutate/": "", "/mutate/" + one: one, "/validate/" + one: ""} {
		h := webhook{configuration: mutatingConfiguration, path: path}
		if got := h.segment(); got != want {
			t.Errorf("the segment of %q is %q, want %q", path, got, want)
		}
	}
}

// fresh issues a certificate with the given lifetime, which may have ended already.
func fresh(t *testing.T, lifetime time.Duration) issued {
	t.Helper()
	c, err := issue(host, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// join returns a bundle of the CAs of certificates.
func join(certificates ...issued) (bundle []byte) {
	for _, c := range certificates {
		bundle = append(bundle, c.ca...)
	}
	return bundle
}

// TestKeysAreECDSA checks that keys are not RSA, whose signatures cost a replica twice as much.
func TestKeysAreECDSA(t *testing.T) {
	t.Parallel()
	issued := fresh(t, 90*day)
	pair, err := issued.pair()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]any{"serving certificate": pair.Leaf.PublicKey, "CA": authority.PublicKey} {
		if got, ok := key.(*ecdsa.PublicKey); !ok || got.Curve != elliptic.P256() {
			t.Errorf("the %s has a %T, want ECDSA P-256", name, key)
		}
	}
	if u := pair.Leaf.KeyUsage; u != x509.KeyUsageDigitalSignature || pair.Leaf.IsCA || !authority.IsCA {
		t.Errorf("serving certificate: key usage %b, CA %t; want signatures only, and no CA. Issuer: CA %t, want true", u, pair.Leaf.IsCA, authority.IsCA)
	}
	if err := verify(&pair, issued.ca, host, time.Now()); err != nil {
		t.Error(err)
	}
}
