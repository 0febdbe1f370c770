package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
)

const cronJobRuns = 3 * time.Hour

// cronJobReasons are what the CronJob controller reports of each job.
func cronJobReasons() []string {
	return []string{"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}
}

// cronJobEvent is what the CronJob controller reports at a time.
func cronJobEvent(at time.Time, reason string) *corev1.Event {
	job := fmt.Sprintf("backup-%d", at.Unix()/60)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("backup.%s.%d", strings.ToLower(reason), at.Unix())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "batch/v1", Kind: "CronJob", Namespace: "default", Name: "backup", UID: "backup-uid",
		},
		Source: corev1.EventSource{Component: "cronjob-controller"},
		Type:   corev1.EventTypeNormal, Reason: reason, Message: reason + ": job " + job,
		Count: 1, FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at),
	}
}

// TestTheCronJobStoryWithClientGo is why reasons have a reserve: the reason that
// comes first takes every token that comes back, and the others vanish.
func TestTheCronJobStoryWithClientGo(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(epoch())
	correlator := record.NewEventCorrelator(clock)
	last := map[string]time.Duration{}
	for after := time.Duration(0); after < cronJobRuns; after += time.Minute {
		clock.SetTime(epoch().Add(after))
		for _, reason := range cronJobReasons() {
			result, err := correlator.EventCorrelate(cronJobEvent(clock.Now(), reason))
			if err != nil {
				t.Fatal(err)
			}
			if !result.Skip {
				last[reason] = after
			}
		}
	}
	want := map[string]time.Duration{
		"SuccessfulCreate": cronJobRuns - 5*time.Minute,
		"SawCompletedJob":  8 * time.Minute,
		"SuccessfulDelete": 7 * time.Minute,
	}
	if fmt.Sprint(last) != fmt.Sprint(want) {
		t.Errorf("last seen: %v, want %v", last, want)
	}
}

// TestTheCronJobStory sends the same to a Gate with the default policy, and a Settler writes what the Gate merges to
// the API server. Nothing is lost, no stored Event is written more often than once in a flush interval, and every
// reason stays in sight: the reserve alone admits one Event of each in each window, and once that is an aggregate every
// job is reported within a flush interval.
func TestTheCronJobStory(t *testing.T) {
	t.Parallel()
	const poll = 250 * time.Millisecond // how often the Settler looks
	synctest.Test(t, func(t *testing.T) {
		p := defaults()
		s := startServer(t, p)
		began := time.Now()
		for minute := time.NewTicker(time.Minute); time.Since(began) < cronJobRuns; <-minute.C {
			for _, reason := range cronJobReasons() {
				if _, err := s.create(t.Context(), cronJobEvent(time.Now(), reason)); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsTooManyRequests(err) {
					t.Error(err)
				}
			}
		}
		s.stop()

		flush := p.Merge.WriteInterval + poll
		for _, reason := range cronJobReasons() {
			// The worst is the reason that comes last: the bucket is empty after
			// 8 minutes, its reserve is back after 10.
			if unseen := s.longestUnseen(reason, began); unseen > 3*time.Minute+poll {
				t.Errorf("%s is unseen for %v", reason, unseen)
			}
			for at := began.Add(p.Merge.SimilarWindow); at.Before(began.Add(cronJobRuns)); at = at.Add(time.Minute) {
				if !s.reports(cronJobEvent(at, reason).Message, at, at.Add(flush)) {
					t.Errorf("%s of minute %v is not reported within %v", reason, at.Sub(began), flush)
				}
			}
		}
		s.checkWrites(p.Merge.WriteInterval, p.Merge.WriteInterval, cronJobRuns)
		if got, want := s.occurrences(), int32(len(cronJobReasons()))*int32(cronJobRuns/time.Minute); got != want {
			t.Errorf("Events and notices count %d occurrences, want %d", got, want)
		}
	})
}
