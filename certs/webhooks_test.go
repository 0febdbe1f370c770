package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestReadyUnlessBundleRejectsCertificate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ours, theirs := fresh(t, 90*day), fresh(t, 90*day)
	served, err := ours.pair()
	if err != nil {
		t.Fatal(err)
	}
	root, chained := chain(t)
	alone := &tls.Certificate{Certificate: chained.Certificate[:1], Leaf: chained.Leaf}
	const untrusted = "does not trust the serving certificate"
	tests := map[string]struct {
		served  *tls.Certificate
		hooks   []webhook
		managed bool // its certificate has a path
		at      time.Time
		want    string
	}{
		"no configuration":                    {&served, nil, true, now, ""},
		"the CA":                              {&served, []webhook{{name: "a", bundle: ours.ca}}, false, now, ""},
		"the CA, and the path":                {&served, []webhook{{name: "a", bundle: ours.ca, path: "/validate/segment"}}, true, now, ""},
		"the CA, and another path":            {&served, []webhook{{name: "a", bundle: ours.ca, path: "/validate/other"}}, true, now, "not accepted"},
		"the CA among others":                 {&served, []webhook{{name: "a", bundle: join(theirs, ours)}}, false, now, ""},
		"another CA":                          {&served, []webhook{{name: "a", bundle: theirs.ca}}, false, now, untrusted},
		"another CA in one of two":            {&served, []webhook{{name: "a", bundle: ours.ca}, {name: "b", bundle: theirs.ca}}, false, now, "b " + untrusted},
		"no bundle, not managed":              {&served, []webhook{{name: "a", bundle: nil}}, false, now, ""},
		"no bundle, managed":                  {&served, []webhook{{name: "a", bundle: nil}}, true, now, untrusted},
		"a bundle with no certificate":        {&served, []webhook{{name: "a", bundle: []byte("-")}}, false, now, untrusted},
		"an expired certificate":              {&served, []webhook{{name: "a", bundle: ours.ca}}, false, now.Add(91 * day), untrusted},
		"a certificate that is not valid yet": {&served, []webhook{{name: "a", bundle: ours.ca}}, false, now.Add(-2 * time.Hour), untrusted},
		"with its intermediate CA":            {chained, []webhook{{name: "a", bundle: root}}, false, now, ""},
		"without its intermediate CA":         {alone, []webhook{{name: "a", bundle: root}}, false, now, "unknown authority"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trust := webhookTrust{service: service()}
			expectError(t, trust.check(tt.served, nil, now), errNotChecked.Error())
			for i := range tt.hooks {
				tt.hooks[i].configuration = validatingConfiguration
			}
			trust.webhooks = map[string][]webhook{validatingConfiguration: tt.hooks}
			var segments []string
			if tt.managed {
				segments = []string{"segment"}
			}
			expectError(t, trust.check(tt.served, segments, tt.at), tt.want)
		})
	}

	otherService := webhookTrust{service: Service{"eventquota-system", "other"}, webhooks: map[string][]webhook{mutatingConfiguration: {{bundle: ours.ca}}}}
	expectError(t, otherService.check(&served, nil, now), "not other")
}

// chain makes a serving certificate that an intermediate CA has signed, with that CA, and returns the root CA in PEM.
func chain(t *testing.T) (root []byte, served *tls.Certificate) {
	t.Helper()
	var parent *x509.Certificate
	var parentKey *ecdsa.PrivateKey
	for _, name := range []string{"root", "middle", host} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: name != host, BasicConstraintsValid: true,
			DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		if parent == nil {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
		if err != nil {
			t.Fatal(err)
		}
		signer := parent.Raw
		if parent, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		parentKey = key
		if name == "root" {
			root = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		}
		served = &tls.Certificate{Certificate: [][]byte{der, signer}, Leaf: parent}
	}
	return root, served
}

func service() Service { return Service{Namespace: "eventquota-system", Name: "eventquota"} }

// expectError checks that the text of err contains want, or that err is nil if want is empty.
func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one that contains %q", err, want)
	}
}
