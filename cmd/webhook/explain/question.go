package explain

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
)

// Bounds of one question.
const (
	// maxQuestionBytes bounds the JSON of a question. An Event of a longer review than admission.MaxReviewBytes is decided without
	// its content, so a longer Event has no answer.
	maxQuestionBytes = 2 * admission.MaxReviewBytes
	maxSamples       = 64
	// maxEvaluations bounds the samples times the writers. A source has up to two writers that are not named.
	maxEvaluations = 2 * maxSamples
	// maxRegisters bounds the registers that are read. Each takes at most engine.MaxGroupBytes, and mostly less than 1 KiB.
	maxRegisters = 2 * maxEvaluations
	// maxWriterBytes bounds the name of a writer, which an answer repeats for each source and bucket.
	maxWriterBytes = 1024
)

// question asks how Events like some stored ones are merged and dropped. It is the body of a request to a replica.
type question struct {
	// Samples are some of the stored Events: all of one namespace, in any order. The answer has one part for each source among
	// them, as one user writes its Events.
	Samples []corev1.Event `json:"samples"`
	// Writers are the users that may have written the samples; by default, the users of Kubernetes' own components.
	Writers []string `json:"writers,omitempty"`
}

// answer is the answer to a question.
type answer struct {
	Store   storeState       `json:"store"`
	Sources []answeredSource `json:"sources"`
	// Dropped has the drops by the spam filters of the sources, and those by quotas about any object.
	Dropped []notice `json:"dropped,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// answeredSource is a source as a replica knows it: without the types of its Events, and without Events that the store does not know.
type answeredSource struct {
	source

	// Sample is the index of its first sample in the question.
	Sample int `json:"sample"`
}

// decodeQuestion decodes and checks a question. If only is not empty, all samples and their objects must be in that namespace.
func decodeQuestion(content []byte, only string) (*question, error) {
	var q question
	err := json.Unmarshal(content, &q, json.WithUnmarshalers(json.UnmarshalFromFunc(decodeSamples)))
	if errors.Is(err, errSampleCount) {
		return nil, errSampleCount
	}
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer != "" {
		return nil, fmt.Errorf("%s: has a value of the wrong type or form", wrong.JSONPointer)
	}
	if err != nil {
		return nil, errors.New(`the body must be a JSON object with "samples"`)
	}
	return &q, q.check(only)
}

var errSampleCount = fmt.Errorf("samples: must have 1 to %d items", maxSamples)

// decodeSamples decodes samples up to the first that is too many. In memory, a short one takes 200 times the length of its JSON.
func decodeSamples(d *jsontext.Decoder, samples *[]corev1.Event) error {
	if d.PeekKind() != '[' {
		return errors.ErrUnsupported
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if len(*samples) == maxSamples {
			return errSampleCount
		}
		*samples = append(*samples, corev1.Event{})
		if err := json.UnmarshalDecode(d, &(*samples)[len(*samples)-1]); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (q *question) check(only string) error {
	if len(q.Samples) == 0 {
		return errSampleCount
	}
	if n := len(q.Writers); n*len(q.Samples) > maxEvaluations {
		return fmt.Errorf("writers: must have at most %d items for %d samples, not %d", maxEvaluations/len(q.Samples), len(q.Samples), n)
	}
	namespace := only
	if namespace == "" {
		namespace = q.namespace()
	}
	for i := range q.Samples {
		e := &q.Samples[i]
		switch {
		case e.Namespace == "":
			return fmt.Errorf("samples[%d].metadata.namespace: must be set", i)
		case e.Namespace != namespace:
			return fmt.Errorf("samples[%d].metadata.namespace: must be %s, not %.253q", i, namespace, e.Namespace)
		case only != "" && e.InvolvedObject.Namespace != only:
			return fmt.Errorf("samples[%d].involvedObject.namespace: must be %s, not %.253q", i, only, e.InvolvedObject.Namespace)
		}
	}
	for i, writer := range q.Writers {
		if writer == "" || len(writer) > maxWriterBytes {
			return fmt.Errorf("writers[%d]: must be the name of a user, of at most %d bytes", i, maxWriterBytes)
		}
	}
	return nil
}

// namespace returns the namespace of all samples, of which there must be at least one.
func (q *question) namespace() string { return q.Samples[0].Namespace }
