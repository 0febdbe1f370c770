package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

// The files of a Secret that are not served yet, and the paths.
const (
	nextCertFile = "next.crt"
	nextKeyFile  = "next.key"
	pathsFile    = "paths"
)

// timing says when certificates and paths are replaced.
type timing struct {
	// lifetime is that of a certificate and its CA, the part that is backdated included.
	lifetime time.Duration
	// renewBefore is how long before the end of a certificate the next one is issued.
	renewBefore time.Duration
	// overlap is how long the next CA is trusted before what it has signed is served. Each
	// API server must have seen the webhook configurations within it.
	overlap time.Duration
	// period is the time between two looks at the cluster. A fifth may be added.
	period time.Duration

	// pathSettles is how long a new path is accepted before the webhook configurations get it, and pathStays how long
	// the one before is accepted from then on. Each replica must have read the Secret within the first, each API
	// server the configurations within the second.
	pathSettles, pathStays time.Duration
	// pathRests is the least time between two new paths, and pathLasts the most.
	pathRests, pathLasts time.Duration
}

// defaultTiming leaves a month to notice that certificates are not renewed.
func defaultTiming() timing {
	return timing{
		lifetime:    90 * 24 * time.Hour,
		renewBefore: 30 * 24 * time.Hour,
		overlap:     time.Hour,
		period:      10 * time.Second,
		pathSettles: time.Minute,
		pathStays:   10 * time.Minute,
		pathRests:   10 * time.Minute,
		pathLasts:   24 * time.Hour,
	}
}

// rotation is what all replicas agree on. Each certificate has a CA of its own, whose key
// is thrown away, so a CA that is trusted longer than it is needed can sign nothing.
type rotation struct {
	// bundle is every CA that is to be trusted, in PEM: those of both certificates, and
	// until they expire those of earlier ones, as a replica that is cut off serves them on.
	bundle []byte
	// serving is served by all replicas, and next will be. Their ca is not used.
	serving, next files
	paths         paths
}

// step is what a rotation has to do next.
type step string

const (
	keep    step = "keep"    // nothing
	begin   step = "begin"   // issue a certificate and serve it at once: there is none
	prepare step = "prepare" // issue the next one, whose CA must be trusted before it is served
	change  step = "change"  // serve the next one
)

// due is the step to take. trusted reports whether every webhook configuration trusts next.
func (r *rotation) due(host string, now time.Time, t timing, trusted bool) step {
	serving, next := r.valid(r.serving, host, now), r.valid(r.next, host, now)
	_, expires := lifetimeOf(r.serving)
	issued, _ := lifetimeOf(r.next)
	switch {
	case !serving && !next:
		return begin
	case !serving: // there is nothing to lose
		return change
	case next && trusted && !now.Before(issued.Add(t.overlap)):
		return change
	case !next && !now.Before(expires.Add(-t.renewBefore)):
		return prepare
	}
	return keep
}

// take is the rotation after a step, which no longer trusts CAs that have expired. fresh is a certificate just issued,
// where the step needs one.
func (r *rotation) take(s step, fresh files, now time.Time) rotation {
	after := *r
	switch s {
	case begin:
		after.serving, after.next = fresh, files{}
	case prepare:
		after.next = fresh
	case change:
		after.serving, after.next = r.next, files{}
	case keep:
	}
	after.bundle = unexpired(now, r.bundle, fresh.ca)
	return after
}

// valid reports whether a certificate of the rotation can be served at a time.
func (r *rotation) valid(f files, host string, at time.Time) bool {
	pair, err := f.pair()
	return err == nil && verify(&pair, r.bundle, host, at) == nil
}

// rotationOf reads a rotation from the data of a Secret. What is missing there is nil.
func rotationOf(data map[string][]byte) rotation {
	return rotation{
		bundle:  data[CAFile],
		serving: files{cert: data[CertFile], key: data[KeyFile]},
		next:    files{cert: data[nextCertFile], key: data[nextKeyFile]},
		paths:   pathsOf(data[pathsFile]),
	}
}

// data is what a Secret holds of the rotation.
func (r *rotation) data() map[string][]byte {
	data := map[string][]byte{CAFile: r.bundle, CertFile: r.serving.cert, KeyFile: r.serving.key, pathsFile: r.paths.data()}
	if r.next.cert != nil && r.next.key != nil {
		data[nextCertFile], data[nextKeyFile] = r.next.cert, r.next.key
	}
	return data
}

// unexpired are the certificates of bundles that have not expired, each once. What is no certificate is left out.
func unexpired(now time.Time, bundles ...[]byte) []byte {
	var kept [][]byte
	for rest := bytes.Join(bundles, []byte("\n")); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return bytes.Join(kept, nil)
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil || now.After(ca.NotAfter) {
			continue
		}
		encoded := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: block.Bytes})
		if !slices.ContainsFunc(kept, func(k []byte) bool { return bytes.Equal(k, encoded) }) {
			kept = append(kept, encoded)
		}
	}
}

// lifetimeOf is when a certificate that can be served was issued, and when it expires.
func lifetimeOf(f files) (issued, expires time.Time) {
	pair, err := f.pair()
	if err != nil {
		return time.Time{}, time.Time{}
	}
	return pair.Leaf.NotBefore.Add(backdated), pair.Leaf.NotAfter
}
