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

// host is that of the Service in these tests.
const host = "eventquota.eventquota-system.svc"

func TestNextStep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	// What is left of first at the end of its lifetime.
	end := 90*day - backdated
	fit := rotation{bundle: first.ca, serving: first}
	prepared := rotation{bundle: join(first, second), serving: first, next: second}
	cut := rotation{bundle: join(first, second), serving: first, next: issued{cert: second.cert}}

	tests := map[string]struct {
		r     rotation
		host  string
		after time.Duration
		ready bool
		want  rotationStep
	}{
		"nothing stored":                  {rotation{}, host, 0, false, stepIssue},
		"just issued":                     {fit, host, 0, false, stepNone},
		"almost a day old":                {fit, host, day - time.Minute, false, stepNone},
		"a day old":                       {fit, host, day + time.Minute, false, stepPrepare},
		"expired":                         {fit, host, end + time.Minute, false, stepIssue},
		"a clock 50 minutes behind":       {fit, host, -50 * time.Minute, false, stepNone},
		"another Service":                 {fit, "quota.eventquota-system.svc", 0, false, stepIssue},
		"its CA is not in the bundle":     {rotation{bundle: second.ca, serving: first}, host, 0, false, stepIssue},
		"another's key":                   {rotation{bundle: first.ca, serving: issued{cert: first.cert, key: second.key}}, host, 0, false, stepIssue},
		"no key":                          {rotation{bundle: first.ca, serving: issued{cert: first.cert}}, host, 0, false, stepIssue},
		"a certificate cut short":         {rotation{bundle: first.ca, serving: issued{cert: first.cert[:100], key: first.key}}, host, 0, false, stepIssue},
		"not valid yet":                   {fit, host, -2 * time.Hour, false, stepIssue},
		"the next one, for 19 minutes":    {prepared, host, 19 * time.Minute, true, stepNone},
		"the next one, for 21 minutes":    {prepared, host, 21 * time.Minute, true, stepActivate},
		"the next one, not ready":         {prepared, host, 21 * time.Minute, false, stepNone},
		"that, for a month":               {prepared, host, 30 * day, false, stepNone},
		"only the next one can be served": {rotation{bundle: second.ca, serving: first, next: second}, host, 0, false, stepActivate},
		"neither can be served":           {prepared, host, end + time.Minute, true, stepIssue},
		"a next one that is cut short":    {cut, host, 2 * time.Hour, true, stepNone},
		"that, when one is due":           {cut, host, 2 * day, true, stepPrepare},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.r.nextStep(tt.host, now.Add(tt.after), defaultTiming(), "", tt.ready); got != tt.want {
				t.Errorf("due: %s, want %s", got, tt.want)
			}
		})
	}
	for leaked, want := range map[string]rotationStep{Segment(first.key): stepPrepare, Segment(second.key): stepNone} {
		if got := fit.nextStep(host, now, defaultTiming(), leaked, false); got != want {
			t.Errorf("due when the path with %s may be known: %s, want %s", leaked, got, want)
		}
	}
	if got := prepared.nextStep(host, now, defaultTiming(), Segment(first.key), false); got != stepNone {
		t.Errorf("due when the path that is replaced may be known: %s, want %s", got, stepNone)
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
			wantTrusted := []issued{first, second} // each once; who is behind serves the earlier one
			if s == stepIssue || s == stepPrepare {
				made, wantTrusted = third, append(wantTrusted, third)
			}
			got := earlier.apply(s, made, now)
			if !bytes.Equal(got.serving.cert, want.serving) || !bytes.Equal(got.next.cert, want.next) {
				t.Errorf("serves\n%s\nand next\n%s", got.serving.cert, got.next.cert)
			}
			if !bytes.Equal(got.bundle, join(wantTrusted...)) {
				t.Errorf("trusts\n%s\nwant what is and was served, and nothing that has expired", got.bundle)
			}
			if again := rotationOf(got.data()); !bytes.Equal(again.next.key, got.next.key) || !bytes.Equal(again.bundle, got.bundle) ||
				!bytes.Equal(again.serving.key, got.serving.key) {
				t.Error("the Secret does not give back what was put into it")
			}
			if step := got.nextStep(host, now, defaultTiming(), "", false); step != stepNone {
				t.Errorf("%s is due right after it", step)
			}
		})
	}
}

// TestBundleKeepsNewestCAs holds that a bundle does not grow for ever, and that what is named again is as good as new.
func TestBundleKeepsNewestCAs(t *testing.T) {
	t.Parallel()
	var all []issued
	for range maxTrusted + 1 {
		all = append(all, fresh(t, 90*day))
	}
	if got := newest(time.Now(), join(all...)); !bytes.Equal(got, join(all[1:]...)) {
		t.Errorf("of %d CAs are trusted\n%s", len(all), got)
	}
	if got := newest(time.Now(), join(all...), all[0].ca); !bytes.Equal(got, join(append(all[2:], all[0])...)) {
		t.Errorf("with the first once more, are trusted\n%s", got)
	}
}

func TestAcceptedSegments(t *testing.T) {
	t.Parallel()
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	one, other := Segment(first.key), Segment(second.key)
	alone := rotation{serving: first}
	prepared := rotation{serving: first, next: second}
	half := defaultTiming().overlap / 2
	for says, test := range map[string]struct {
		r          rotation
		has        string
		after      time.Duration
		want       string
		acceptsToo string // beside one
	}{
		"none yet": {alone, "", 0, one, ""},
		"another":  {alone, other, 0, one, ""},
		"a next one that all had the time to read":    {prepared, one, half + time.Second, other, other},
		"a next one that not all had":                 {prepared, one, half - time.Second, one, other},
		"a next one, in use by a clock that is ahead": {prepared, other, 0, other, other},
		"another, beside a next one":                  {prepared, "x", 0, one, other},
		"a next one that cannot be served":            {rotation{serving: first, next: issued{key: second.key}}, "", day, one, ""},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			now := second.at().Add(test.after)
			if got := test.r.wantedSegment(test.has, now, defaultTiming()); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			for _, segment := range []string{"", one[1:], one + "a", strings.ToUpper(one), "/" + one, Segment(nil), other} {
				if got, want := accepts(test.r.segments(), segment), segment == test.acceptsToo && segment != ""; got != want {
					t.Errorf("accepts %q beside %q: %t, want %t", segment, one, got, want)
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
			t.Errorf("the segment of %q is %q", path, got)
		}
	}
}

// fresh issues a certificate with the lifetime, which may have ended.
func fresh(t *testing.T, lifetime time.Duration) issued {
	t.Helper()
	c, err := issue(host, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// join is the bundle of the CAs of certificates.
func join(of ...issued) (bundle []byte) {
	for _, c := range of {
		bundle = append(bundle, c.ca...)
	}
	return bundle
}

// TestKeysAreECDSA holds that no key of RSA is issued, whose signatures cost a replica twice as much.
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
	for says, key := range map[string]any{"serving certificate": pair.Leaf.PublicKey, "CA": authority.PublicKey} {
		if got, is := key.(*ecdsa.PublicKey); !is || got.Curve != elliptic.P256() {
			t.Errorf("the %s has a %T, want ECDSA P-256", says, key)
		}
	}
	if u := pair.Leaf.KeyUsage; u != x509.KeyUsageDigitalSignature || pair.Leaf.IsCA || !authority.IsCA {
		t.Errorf("key usage %b, a CA: %t; want one for signatures only", u, pair.Leaf.IsCA)
	}
	if err := verify(&pair, issued.ca, host, time.Now()); err != nil {
		t.Error(err)
	}
}
