package settler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// dropped makes a debt one to a notice.
func dropped(d *store.Debt) {
	d.Total, d.Merged, d.First = 12, 12, epoch()
	d.Notice = &store.Notice{
		Subject: store.Subject{
			APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid",
			Component: "kubelet", Host: "node-1",
		},
		Reasons: []store.Tally{{What: "Pulled", Count: 3}, {What: "BackOff", Count: 8}, {What: "", Count: 1}},
	}
}

func written(d *store.Debt) { d.Notice.Written = true }

const noticeText = "dropped 12 Events from kubelet on node-1 since 2030-03-01T12:00:00Z: 8 BackOff, 3 Pulled, 1 of other reasons"

func TestANoticeIsAWarningOnTheSameObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.account.owed = []store.Debt{debt("n", dropped)}
		if err := r.run(r.account, time.Second, settler.Options{}); err != nil {
			t.Error(err)
		}
		want := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n"},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid",
			},
			Reason: "EventsDropped", Type: "Warning", Message: noticeText,
			Source: corev1.EventSource{Component: "eventquota"}, ReportingController: "eventquota",
			Count: 12, FirstTimestamp: metav1.NewTime(epoch()), LastTimestamp: metav1.NewTime(epoch().Add(90 * time.Second)),
		}
		if got := fmt.Sprint(r.did(), r.account.came); got != "[create default/n] [n told]" {
			t.Errorf("did %s", got)
		}
		if diff := cmp.Diff(want, r.calls[0].event); diff != "" {
			t.Errorf("notice (-want +got):\n%s", diff)
		}
	})
}

func TestNoticesAreWrittenWhereTheyAre(t *testing.T) {
	t.Parallel()
	exists := apierrors.NewAlreadyExists(corev1.Resource("events"), "n")
	gone := apierrors.NewNotFound(corev1.Resource("events"), "n")
	terminating := apierrors.NewForbidden(corev1.Resource("events"), "n", nil)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := map[string]struct {
		debt    store.Debt
		answers []error
		want    string
	}{
		"a new one is created":                           {debt("n", dropped), []error{nil}, "[create default/n] [n told] [told]"},
		"one that is there is updated":                   {debt("n", dropped, written), []error{nil}, "[patch default/n] [n told] [told]"},
		"one that turns out to be there is updated":      {debt("n", dropped), []error{exists, nil}, "[create default/n patch default/n] [n told] [told]"},
		"one that is not there any more is created":      {debt("n", dropped, written), []error{gone, nil}, "[patch default/n create default/n] [n told] [told]"},
		"one that goes between two calls is tried again": {debt("n", dropped), []error{exists, gone, nil}, "[create default/n patch default/n create default/n] [n told] [retried told]"},
		"one whose namespace is gone is given up":        {debt("n", dropped), []error{gone}, "[create default/n] [n gone] [gone]"},
		"one whose namespace has gone is given up":       {debt("n", dropped, written), []error{gone, gone}, "[patch default/n create default/n] [n gone] [gone]"},
		"one whose namespace is going is given up":       {debt("n", dropped), []error{terminating}, "[create default/n] [n refused] [refused]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.account.owed = []store.Debt{tt.debt}
				r.answer = func(n int) error {
					if n > len(tt.answers) {
						return nil
					}
					return tt.answers[n-1]
				}
				if err := r.run(r.account, time.Second, settler.Options{}); err != nil {
					t.Error(err)
				}
				if got := fmt.Sprint(r.did(), r.account.came, r.results); got != tt.want {
					t.Errorf("did %s, want %s", got, tt.want)
				}
				for _, c := range r.calls {
					want := `{"count":12,"lastTimestamp":"2030-03-01T12:01:30Z","message":"` + noticeText + `"}`
					if strings.HasPrefix(c.says, "patch") && c.body != want {
						t.Errorf("patch %s, want %s", c.body, want)
					}
				}
			})
		})
	}
}

func TestANoticeIsNeverLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		long := debt("n", dropped, func(d *store.Debt) {
			d.Notice.Subject.Component, d.Notice.Subject.Host = strings.Repeat("c", 5000), strings.Repeat("€", 5000)
			for i := range 16 {
				d.Notice.Reasons = append(d.Notice.Reasons, store.Tally{What: fmt.Sprint(i, strings.Repeat("€", 500)), Count: 100})
			}
		})
		again := long
		again.Name, again.Ref.ID = "again", 2
		r.account.owed = []store.Debt{long, again}
		if err := r.run(r.account, time.Second, settler.Options{}); err != nil {
			t.Error(err)
		}
		for _, c := range r.calls {
			message := c.event.Message
			if len(message) > 1024 || !strings.HasPrefix(message, "dropped 12 Events from ccc") || !strings.Contains(message, ": 100 0€€€") {
				t.Errorf("%s of %d bytes: %q", c.says, len(message), message)
			}
		}
		if len(r.calls) != 2 {
			t.Errorf("did %s, want two creates", r.did())
		}
	})
}
