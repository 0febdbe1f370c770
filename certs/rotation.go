package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
)

// The files of a serving certificate, named as in a Secret of type kubernetes.io/tls.
const (
	// CertFile holds the serving certificate, followed by its CA, in PEM.
	CertFile = "tls.crt"
	// KeyFile holds the private key of the serving certificate, in PEM.
	KeyFile = "tls.key"
	// CAFile holds the CA alone, in PEM.
	CAFile = "ca.crt"

	// What is not served yet.
	nextCertFile = "next.crt"
	nextKeyFile  = "next.key"
)

const (
	// maxTrusted bounds the CAs in a bundle. A replica that is cut off serves its certificate on, so those of earlier
	// ones are trusted too.
	maxTrusted = 6
	// segmentLength is that of 130 bits in base32.
	segmentLength = 26
)

// timing says when certificates are replaced.
type timing struct {
	// lifetime is that of a certificate and its CA, the part that is backdated included.
	lifetime time.Duration
	// renewAfter is how long after a certificate was issued the next one is.
	renewAfter time.Duration
	// overlap is how long the next CA is trusted before what it has signed is served. In the second half of it, the
	// webhook configurations have the path of the next certificate. Each replica must have read the Secret within the
	// first half, and each API server the configurations within the second.
	overlap time.Duration
	// checkInterval is the time between two looks at the cluster. A fifth may be added.
	checkInterval time.Duration
}

// defaultTiming leaves three months to notice that certificates are not renewed.
func defaultTiming() timing {
	return timing{lifetime: 90 * 24 * time.Hour, renewAfter: 24 * time.Hour, overlap: 20 * time.Minute, checkInterval: 10 * time.Second}
}

// Segment ends the path at which calls are accepted with a certificate that has this private key, in PEM. Only whoever has the key
// can compute it: it has 130 bits of a hash, in lower case, as the API server takes no other path.
func Segment(key []byte) string {
	sum := sha256.Sum256(append([]byte("path\n"), key...))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:segmentLength])
}

// rotation is what all replicas agree on. Each certificate has a CA of its own, whose key is thrown away, so a CA that
// is trusted longer than it is needed can sign nothing.
type rotation struct {
	// bundle is every CA that is to be trusted, in PEM: those of both certificates, and of some earlier ones.
	bundle []byte
	// serving is served by all replicas, and next will be. Their ca is not used.
	serving, next issued
}

// rotationStep is what a rotation has to do next.
type rotationStep string

const (
	stepNone     rotationStep = "keep"    // nothing
	stepIssue    rotationStep = "begin"   // issue a certificate and serve it at once: there is none
	stepPrepare  rotationStep = "prepare" // issue the next one, which must be known before it is served
	stepActivate rotationStep = "change"  // serve the next one
)

// nextStep is the step to take. leaked is a segment that others may know. ready reports whether every webhook configuration
// trusts next and has its path.
func (r *rotation) nextStep(host string, now time.Time, t timing, leaked string, ready bool) rotationStep {
	serving, next := r.valid(r.serving, host, now), r.valid(r.next, host, now)
	switch {
	case !serving && !next:
		return stepIssue
	case !serving: // there is nothing to lose
		return stepActivate
	case next && ready && !now.Before(r.next.at().Add(t.overlap)):
		return stepActivate
	case !next && (leaked == Segment(r.serving.key) || !now.Before(r.serving.at().Add(t.renewAfter))):
		return stepPrepare
	}
	return stepNone
}

// apply is the rotation after a step, which no longer trusts CAs that have expired. fresh is a certificate just issued,
// where the step needs one.
func (r *rotation) apply(s rotationStep, fresh issued, now time.Time) rotation {
	after := *r
	switch s {
	case stepIssue:
		after.serving, after.next = fresh, issued{}
	case stepPrepare:
		after.next = fresh
	case stepActivate:
		after.serving, after.next = r.next, issued{}
	case stepNone:
	}
	after.bundle = newest(now, r.bundle, fresh.ca)
	return after
}

// valid reports whether a certificate of the rotation can be served at a time.
func (r *rotation) valid(c issued, host string, at time.Time) bool {
	pair, err := c.pair()
	return err == nil && verify(&pair, r.bundle, host, at) == nil
}

// segments are those of the paths that are accepted.
func (r *rotation) segments() []string {
	if r.next.at().IsZero() {
		return []string{Segment(r.serving.key)}
	}
	return []string{Segment(r.serving.key), Segment(r.next.key)}
}

// wantedSegment is the segment that a webhook configuration with this one is to have. It is never an older one: another
// replica's clock may be ahead.
func (r *rotation) wantedSegment(has string, now time.Time, t timing) string {
	all := r.segments()
	last := all[len(all)-1]
	if has == last || !now.Before(r.next.at().Add(t.overlap/2)) {
		return last
	}
	return all[0]
}

// rotationOf reads a rotation from the data of a Secret. What is missing there is nil.
func rotationOf(data map[string][]byte) rotation {
	return rotation{
		bundle:  data[CAFile],
		serving: issued{cert: data[CertFile], key: data[KeyFile]},
		next:    issued{cert: data[nextCertFile], key: data[nextKeyFile]},
	}
}

// data is what a Secret holds of the rotation.
func (r *rotation) data() map[string][]byte {
	data := map[string][]byte{CAFile: r.bundle, CertFile: r.serving.cert, KeyFile: r.serving.key}
	if r.next.cert != nil && r.next.key != nil {
		data[nextCertFile], data[nextKeyFile] = r.next.cert, r.next.key
	}
	return data
}

// newest are the last certificates of bundles that have not expired, each once. What is no certificate is left out.
func newest(now time.Time, bundles ...[]byte) []byte {
	var kept [][]byte
	for rest := bytes.Join(bundles, []byte("\n")); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return bytes.Join(kept[max(0, len(kept)-maxTrusted):], nil)
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil || now.After(ca.NotAfter) {
			continue
		}
		encoded := encode(cert.CertificateBlockType, block.Bytes)
		kept = append(slices.DeleteFunc(kept, func(k []byte) bool { return bytes.Equal(k, encoded) }), encoded)
	}
}
