package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// maxMessages bounds the samples of a source, type and reason. They have different messages, as policies can match messages.
const maxMessages = 3

// batch is a question with samples of some sources.
type batch struct {
	question

	of    []*source // the source of each sample
	bytes int       // of the samples
}

// ask completes r with what a replica knows of the stored Events about its object. There is at least one.
func (r *report) ask(ctx context.Context, replica *replicas.Replica, events []corev1.Event, writers []string) error {
	if len(events) >= maxEvents {
		r.Notes = append(r.Notes, fmt.Sprintf("only %d Events were read: there may be more", len(events)))
	}
	for _, b := range r.batches(sourcesOf(events), writers) {
		var a answer
		if err := replica.Explain(ctx, &b.question, &a); err != nil {
			return err
		}
		if err := r.add(b, &a); err != nil {
			return err
		}
	}
	slices.SortFunc(r.Dropped, func(a, b notice) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// add adds an answer. Several answers may have the same notice of a quota.
func (r *report) add(b *batch, a *answer) error {
	r.Store = a.Store
	for i := range a.Sources {
		s := &a.Sources[i]
		if s.Sample < 0 || s.Sample >= len(b.of) {
			return errors.New("explain: the answer of the replica is malformed")
		}
		s.addStored(b.of[s.Sample].stored)
		r.Sources = append(r.Sources, &s.source)
	}
	for _, n := range a.Dropped {
		if !slices.ContainsFunc(r.Dropped, func(known notice) bool { return known.Name == n.Name }) {
			r.Dropped = append(r.Dropped, n)
		}
	}
	for _, note := range a.Notes {
		r.Notes = addOnce(r.Notes, note)
	}
	return nil
}

// batches returns questions that cover the sources, each in one of them.
func (r *report) batches(sources []*source, writers []string) (all []*batch) {
	for _, s := range sources {
		samples, bytes := r.samplesOf(s, max(1, maxEvaluations/max(2, len(writers))))
		if len(samples) == 0 {
			continue
		}
		if n := len(all); n == 0 || all[n-1].bytes+bytes > maxSampleBytes || (len(all[n-1].Samples)+len(samples))*max(2, len(writers)) > maxEvaluations {
			all = append(all, &batch{question: question{Writers: writers}})
		}
		last := all[len(all)-1]
		last.bytes += bytes
		for i := range samples {
			last.Samples, last.of = append(last.Samples, samples[i]), append(last.of, s)
		}
	}
	return all
}

// maxSampleBytes bounds the Events of a question, and leaves space for the rest of it.
const maxSampleBytes = maxQuestionBytes - admission.MaxReviewBytes/2

// samplesOf returns up to most Events of s, with the length of their JSON. The first have all types and reasons, and others further
// messages. It adds a note if a type and reason has none.
func (r *report) samplesOf(s *source, most int) (samples []corev1.Event, bytes int) {
	messages := map[[2]string][]string{}
	var first, others []*corev1.Event
	for _, e := range s.stored {
		kind := [2]string{e.Type, e.Reason}
		switch known := messages[kind]; {
		case len(known) == 0:
			first = append(first, e)
		case len(known) < maxMessages && !slices.Contains(known, e.Message):
			others = append(others, e)
		default:
			continue
		}
		messages[kind] = append(messages[kind], e.Message)
	}
	missing := 0
	for i, e := range slices.Concat(first, others) {
		sample := *e
		sample.ManagedFields = nil
		content, err := json.Marshal(&sample)
		if err == nil && len(samples) < most && bytes+len(content) <= maxSampleBytes {
			samples, bytes = append(samples, sample), bytes+len(content)
		} else if i < len(first) {
			missing++
		}
	}
	if missing > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d types and reasons of Events of %s are too many or too large to be explained", missing, s.name()))
	}
	return samples, bytes
}
