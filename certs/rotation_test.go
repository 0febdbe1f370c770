package certs

import (
	"bytes"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

const day = 24 * time.Hour

// host is that of the Service in these tests.
const host = "eventquota.eventquota-system.svc"

func TestTheStepThatIsDue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first, second := fresh(t, 90*day), fresh(t, 90*day)
	// What is left of first at the end of its lifetime.
	end := 90*day - backdated
	fit := rotation{bundle: first.ca, serving: first}
	prepared := rotation{bundle: join(first, second), serving: first, next: second}

	tests := map[string]struct {
		r       rotation
		host    string
		after   time.Duration
		trusted bool
		want    step
	}{
		"nothing stored":                        {rotation{}, host, 0, false, begin},
		"just issued":                           {fit, host, 0, false, keep},
		"31 days before its end":                {fit, host, end - 31*day, false, keep},
		"29 days before its end":                {fit, host, end - 29*day, false, prepare},
		"expired":                               {fit, host, end + time.Minute, false, begin},
		"a clock 50 minutes behind":             {fit, host, -50 * time.Minute, false, keep},
		"another Service":                       {fit, "quota.eventquota-system.svc", 0, false, begin},
		"its CA is not in the bundle":           {rotation{bundle: second.ca, serving: first}, host, 0, false, begin},
		"another's key":                         {rotation{bundle: first.ca, serving: files{cert: first.cert, key: second.key}}, host, 0, false, begin},
		"no key":                                {rotation{bundle: first.ca, serving: files{cert: first.cert}}, host, 0, false, begin},
		"a certificate cut short":               {rotation{bundle: first.ca, serving: files{cert: first.cert[:100], key: first.key}}, host, 0, false, begin},
		"not valid yet":                         {fit, host, -2 * time.Hour, false, begin},
		"the next one, trusted for 59 minutes":  {prepared, host, 59 * time.Minute, true, keep},
		"the next one, trusted for 61 minutes":  {prepared, host, 61 * time.Minute, true, change},
		"the next one, not trusted yet":         {prepared, host, 61 * time.Minute, false, keep},
		"the next one, not trusted for a month": {prepared, host, 30 * day, false, keep},
		"only the next one can be served":       {rotation{bundle: second.ca, serving: first, next: second}, host, 0, false, change},
		"neither can be served":                 {prepared, host, end + time.Minute, true, begin},
		"a next one that is cut short":          {rotation{bundle: join(first, second), serving: first, next: files{cert: second.cert}}, host, 2 * time.Hour, true, keep},
		"that, near the end":                    {rotation{bundle: join(first, second), serving: first, next: files{cert: second.cert}}, host, end - day, true, prepare},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.r.due(tt.host, now.Add(tt.after), defaultTiming(), tt.trusted); got != tt.want {
				t.Errorf("due: %s, want %s", got, tt.want)
			}
		})
	}
}

func TestWhatEachStepServesAndTrusts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first, second, third := fresh(t, 90*day), fresh(t, 90*day), fresh(t, 90*day)
	expired := fresh(t, backdated-time.Minute)
	bundle := append([]byte("# ours\n"), join(expired, first, first, second)...)
	earlier := rotation{bundle: bundle, serving: first, next: second}

	tests := map[step]struct{ serving, next []byte }{
		keep:    {first.cert, second.cert},
		begin:   {third.cert, nil},
		prepare: {first.cert, third.cert},
		change:  {second.cert, nil},
	}
	for s, want := range tests {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			var issued files
			wantTrusted := []files{first, second} // each once; who is behind serves the earlier one
			if s == begin || s == prepare {
				issued, wantTrusted = third, append(wantTrusted, third)
			}
			got := earlier.take(s, issued, now)
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
			if step := got.due(host, now, defaultTiming(), false); step != keep {
				t.Errorf("%s is due right after it", step)
			}
		})
	}
}

// fresh issues a certificate with the lifetime, which may have ended.
func fresh(t *testing.T, lifetime time.Duration) files {
	t.Helper()
	f, err := issue(host, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// join is the bundle of the CAs of certificates.
func join(of ...files) (bundle []byte) {
	for _, f := range of {
		if _, err := cert.ParseCertsPEM(f.ca); err != nil {
			panic(err)
		}
		bundle = append(bundle, f.ca...)
	}
	return bundle
}
