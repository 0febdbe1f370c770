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

	// The next certificate and its key, which are not served yet.
	nextCertFile = "next.crt"
	nextKeyFile  = "next.key"
)

const (
	// maxTrusted bounds the CAs in a bundle. Earlier CAs stay in it, as a replica that cannot read the Secret continues
	// to serve its certificate.
	maxTrusted = 6
	// segmentLength is the length of 130 bits in base32.
	segmentLength = 26
)

// timing says when certificates are replaced.
type timing struct {
	// lifetime is how long a certificate and its CA are valid, including the time by which they are backdated.
	lifetime time.Duration
	// renewAfter is the time between issuing a certificate and issuing the next one.
	renewAfter time.Duration
	// overlap is how long the next CA is trusted before its certificate is served. In the second half, the webhook
	// configurations have the path of the next certificate. Each replica must read the Secret within the first half, and
	// each API server the configurations within the second.
	overlap time.Duration
	// checkInterval is the time between two checks of the cluster. Up to a fifth is added.
	checkInterval time.Duration
}

// defaultTiming leaves three months to notice that certificates are not renewed.
func defaultTiming() timing {
	return timing{lifetime: 90 * 24 * time.Hour, renewAfter: 24 * time.Hour, overlap: 20 * time.Minute, checkInterval: 10 * time.Second}
}

// Segment returns the last segment of the path that goes with a private key, in PEM. It is 130 bits of a hash, so it can
// only be computed from the key. It is in lower case, as the API server accepts no other path.
func Segment(key []byte) string {
	sum := sha256.Sum256(append([]byte("path\n"), key...))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:segmentLength])
}

// rotation is the state of the Secret, which all replicas share. Each certificate has its own CA, whose key is discarded.
// So a CA that is trusted longer than necessary cannot sign anything.
type rotation struct {
	// bundle has the trusted CAs, in PEM: those of both certificates, and of some earlier ones.
	bundle []byte
	// serving is the certificate that all replicas serve, and next the one after it. Their ca is not used.
	serving, next issued
}

// rotationStep is a step of a rotation.
type rotationStep string

const (
	stepNone     rotationStep = "keep"    // nothing is due
	stepIssue    rotationStep = "begin"   // no certificate is valid: issue one and serve it at once
	stepPrepare  rotationStep = "prepare" // issue the next certificate, which is served after the overlap
	stepActivate rotationStep = "change"  // serve the next certificate
)

// nextStep returns the step to take. leaked is a segment that others may know. ready says whether all webhook
// configurations trust the next certificate and have its path.
func (r *rotation) nextStep(host string, now time.Time, t timing, leaked string, ready bool) rotationStep {
	serving, next := r.valid(r.serving, host, now), r.valid(r.next, host, now)
	switch {
	case !serving && !next:
		return stepIssue
	case !serving: // waiting would help nobody: calls fail already
		return stepActivate
	case next && ready && !now.Before(r.next.at().Add(t.overlap)):
		return stepActivate
	case !next && (leaked == Segment(r.serving.key) || !now.Before(r.serving.at().Add(t.renewAfter))):
		return stepPrepare
	}
	return stepNone
}

// apply returns the rotation after a step, without expired CAs. fresh is a new certificate if the step needs one.
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

// valid reports whether a certificate of the rotation can be served at the given time.
func (r *rotation) valid(c issued, host string, at time.Time) bool {
	pair, err := c.pair()
	return err == nil && verify(&pair, r.bundle, host, at) == nil
}

// segments returns the segments of the accepted paths, that of the next certificate last.
func (r *rotation) segments() []string {
	if r.next.at().IsZero() {
		return []string{Segment(r.serving.key)}
	}
	return []string{Segment(r.serving.key), Segment(r.next.key)}
}

// wantedSegment returns the segment that a webhook configuration should have. current is the one that it has. A newer
// segment is never replaced by an older one, as the clock of the replica that wrote it may be ahead.
func (r *rotation) wantedSegment(current string, now time.Time, t timing) string {
	all := r.segments()
	last := all[len(all)-1]
	if current == last || !now.Before(r.next.at().Add(t.overlap/2)) {
		return last
	}
	return all[0]
}

// rotationOf reads a rotation from the data of a Secret. Missing parts are nil.
func rotationOf(data map[string][]byte) rotation {
	return rotation{
		bundle:  data[CAFile],
		serving: issued{cert: data[CertFile], key: data[KeyFile]},
		next:    issued{cert: data[nextCertFile], key: data[nextKeyFile]},
	}
}

// data returns the rotation as data of a Secret.
func (r *rotation) data() map[string][]byte {
	data := map[string][]byte{CAFile: r.bundle, CertFile: r.serving.cert, KeyFile: r.serving.key}
	if r.next.cert != nil && r.next.key != nil {
		data[nextCertFile], data[nextKeyFile] = r.next.cert, r.next.key
	}
	return data
}

// newest returns the last maxTrusted certificates of bundles that have not expired, each once. It skips data that is not
// a certificate.
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
