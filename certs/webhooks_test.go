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
	const refused = "does not trust the serving certificate"
	tests := map[string]struct {
		served  *tls.Certificate
		hooks   []webhook
		managed bool // with a path of its own
		at      time.Time
		want    string
	}{
		"no configuration":                   {&served, nil, true, now, ""},
		"the CA":                             {&served, []webhook{{name: "a", bundle: ours.ca}}, false, now, ""},
		"the CA, and the path":               {&served, []webhook{{name: "a", bundle: ours.ca, path: "/validate/segment"}}, true, now, ""},
		"the CA, and another path":           {&served, []webhook{{name: "a", bundle: ours.ca, path: "/validate/other"}}, true, now, "not accepted"},
		"the CA among others":                {&served, []webhook{{name: "a", bundle: join(theirs, ours)}}, false, now, ""},
		"another CA":                         {&served, []webhook{{name: "a", bundle: theirs.ca}}, false, now, refused},
		"another CA in one of two":           {&served, []webhook{{name: "a", bundle: ours.ca}, {name: "b", bundle: theirs.ca}}, false, now, "b " + refused},
		"no bundle, somebody else's":         {&served, []webhook{{name: "a", bundle: nil}}, false, now, ""},
		"no bundle, one is to be injected":   {&served, []webhook{{name: "a", bundle: nil}}, true, now, refused},
		"a bundle with no certificate":       {&served, []webhook{{name: "a", bundle: []byte("-")}}, false, now, refused},
		"a certificate that has expired":     {&served, []webhook{{name: "a", bundle: ours.ca}}, false, now.Add(91 * day), refused},
		"a certificate that is valid for no": {&served, []webhook{{name: "a", bundle: ours.ca}}, false, now.Add(-2 * time.Hour), refused},
		"an intermediate CA beside it":       {chained, []webhook{{name: "a", bundle: root}}, false, now, ""},
		"an intermediate CA left out":        {alone, []webhook{{name: "a", bundle: root}}, false, now, "unknown authority"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := webhookTrust{service: service()}
			expect(t, asked.check(tt.served, nil, now), errNotChecked.Error())
			for i := range tt.hooks {
				tt.hooks[i].configuration = validatingConfiguration
			}
			asked.webhooks = map[string][]webhook{validatingConfiguration: tt.hooks}
			var segments []string
			if tt.managed {
				segments = []string{"segment"}
			}
			expect(t, asked.check(tt.served, segments, tt.at), tt.want)
		})
	}

	elsewhere := webhookTrust{service: Service{"eventquota-system", "other"}, webhooks: map[string][]webhook{mutatingConfiguration: {{bundle: ours.ca}}}}
	expect(t, elsewhere.check(&served, nil, now), "not other")
}

// chain is a serving certificate that an intermediate CA has signed, with that CA, and the root CA of both in PEM.
func chain(t *testing.T) (root []byte, served *tls.Certificate) {
	t.Helper()
	var parent *x509.Certificate
	var by *ecdsa.PrivateKey
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
			parent, by = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		signer := parent.Raw
		if parent, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		by = key
		if name == "root" {
			root = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		}
		served = &tls.Certificate{Certificate: [][]byte{der, signer}, Leaf: parent}
	}
	return root, served
}

func service() Service { return Service{Namespace: "eventquota-system", Name: "eventquota"} }

// expect holds an error to a part of its text, or to be none.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want %q in it", err, want)
	}
}
