package release_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

func TestBrakesAreReleasedAtTheirEnd(t *testing.T) {
	run(t, func(r *rig) {
		r.cluster.Add(brakeUntil("", r.in(30*time.Minute)))
		stop := r.start()
		defer stop()
		r.tenants.Add(brakeUntil("shop", r.in(10*time.Minute)))
		r.pass(10*time.Minute - time.Second)
		r.wantReleased()
		r.pass(time.Second)
		r.wantReleased("shop/emergency-brake after 10m0s")
		r.pass(20 * time.Minute)
		r.wantReleased("shop/emergency-brake after 10m0s", "emergency-brake after 30m0s")
		r.pass(24 * time.Hour)
		r.wantReleased("shop/emergency-brake after 10m0s", "emergency-brake after 30m0s")
		if left := r.cluster.get("", v1alpha1.BrakeName).Annotations; len(left) != 1 || left["other"] != "kept" {
			t.Errorf("the annotations are %v, want only those of others", left)
		}
		if n := len(r.patches); n != 2 {
			t.Errorf("%d patches, want one each: %q", n, r.patches)
		}
		if r.logged("Released an emergency brake") != 2 {
			t.Errorf("log: %q", r.log)
		}
	})
}

func TestAnEndThatIsChangedCounts(t *testing.T) {
	run(t, func(r *rig) {
		r.cluster.Add(brakeUntil("", r.in(10*time.Minute)))
		defer r.start()()
		r.pass(9 * time.Minute)
		r.cluster.Modify(brakeUntil("", r.in(30*time.Minute))) // pulled again
		r.pass(2 * time.Minute)
		r.wantReleased()
		r.cluster.Modify(brakeUntil("", r.in(20*time.Minute)))
		r.pass(9 * time.Minute)
		r.wantReleased("emergency-brake after 20m0s")

		r.cluster.Modify(brakeUntil("", r.in(25*time.Minute)))
		r.pass(time.Minute)
		without := brakeUntil("", "")
		delete(without.Annotations, v1alpha1.AnnotationBrakeUntil)
		r.cluster.Modify(without) // brake on --for 0, or brake off
		r.pass(time.Hour)
		r.wantReleased("emergency-brake after 20m0s")

		r.tenants.Add(brakeUntil("shop", r.in(2*time.Hour)))
		r.pass(time.Second)
		r.tenants.Delete(brakeUntil("shop", ""))
		r.pass(2 * time.Hour)
		if n := len(r.patches); n != 1 {
			t.Errorf("%d patches, want 1: %q", n, r.patches)
		}
	})
}

// TestEndOfYearOne has the end that a zero time is written as.
func TestEndOfYearOne(t *testing.T) {
	run(t, func(r *rig) {
		defer r.start()()
		r.tenants.Add(brakeUntil("shop", time.Time{}.Format(time.RFC3339)))
		r.pass(time.Second)
		r.wantReleased("shop/emergency-brake after 0s")
	})
}

func TestTheNextLeaderReleases(t *testing.T) {
	run(t, func(r *rig) {
		r.cluster.Add(brakeUntil("", r.in(10*time.Minute)))
		r.start()()
		r.pass(time.Hour) // nobody leads
		r.wantReleased()
		defer r.start()()
		r.wantReleased("emergency-brake after 1h0m0s")
	})
}

// A brake that is pulled again between the read and the write stays on.
func TestAStaleVersionIsNotReleased(t *testing.T) {
	run(t, func(r *rig) {
		r.cluster.Add(brakeUntil("", r.in(time.Minute)))
		stop := r.start()
		r.pass(30 * time.Second)
		r.fails = apierrors.NewConflict(v1alpha1.Resources()[v1alpha1.KindClusterEventPolicy].GroupResource(), v1alpha1.BrakeName, errors.New("changed"))
		r.pass(31 * time.Second)
		synctest.Wait()
		if len(r.patches) == 0 {
			t.Fatal("no patch")
		}
		for _, patch := range r.patches {
			if !strings.Contains(patch, `"resourceVersion":"1"`) {
				t.Errorf("patch %s has no precondition", patch)
			}
		}
		r.cluster.Modify(brakeUntil("", r.in(time.Hour)))
		r.fails = nil
		r.pass(10 * time.Minute)
		r.wantReleased()
		r.pass(time.Hour)
		r.wantReleased("emergency-brake after 1h0m0s")
		stop()
	})
}

func TestFailuresAreTriedAgainAndLoggedOnce(t *testing.T) {
	run(t, func(r *rig) {
		r.cluster.Add(brakeUntil("", r.in(time.Second)))
		r.fails = apierrors.NewForbidden(v1alpha1.Resources()[v1alpha1.KindClusterEventPolicy].GroupResource(), v1alpha1.BrakeName, errors.New("no right"))
		defer r.start()()
		r.pass(10 * time.Minute)
		synctest.Wait()
		if n := len(r.patches); n < 10 || n > 20 {
			t.Errorf("%d patches in ten minutes, want one a minute in the end", n)
		}
		if n := r.logged("cannot be released"); n != 1 {
			t.Errorf("%d log lines, want 1: %q", n, r.log)
		}
		r.mu.Lock()
		r.fails = nil
		r.mu.Unlock()
		r.pass(time.Minute)
		if len(r.released) != 1 {
			t.Errorf("%v are released in the end", r.released)
		}
	})
}

func TestWrongEndsAreLoggedOnce(t *testing.T) {
	for says, value := range map[string]string{
		"no text": "", "a word": "tomorrow", "a duration": "30m", "another form": "2026-01-02 15:04:05", "a line break": "2026-01-02T15:04:05Z\n",
		"much": strings.Repeat("9", 200_000), "no UTF-8": "\xff\xfe", "an impossible day": "2026-02-30T00:00:00Z",
	} {
		t.Run(says, func(t *testing.T) {
			run(t, func(r *rig) {
				r.cluster.Add(brakeUntil("", value))
				defer r.start()()
				for range 10 {
					r.cluster.Modify(brakeUntil("", value)) // a status is written
					r.pass(time.Minute)
				}
				synctest.Wait()
				if n := r.logged("must be a time in RFC 3339"); n != 1 || len(r.patches) != 0 {
					t.Errorf("%d log lines and %d patches, want 1 and none: %.300q", n, len(r.patches), r.log)
				}
				if len(strings.Join(r.log, "")) > 1000 {
					t.Errorf("the log has %d bytes", len(strings.Join(r.log, "")))
				}
				r.cluster.Modify(brakeUntil("", r.in(time.Hour)))
				r.pass(time.Hour)
				if len(r.released) != 1 {
					t.Errorf("%v are released after the annotation was put right", r.released)
				}
			})
		})
	}
}

// Tenants may set brakes of their own at any rate: the cluster's goes first, and the API server and the log get few of theirs.
func TestTenantsDoNotDelayTheClusterBrake(t *testing.T) {
	run(t, func(r *rig) {
		for i := range 100 {
			r.tenants.Add(brakeUntil(fmt.Sprint("tenant-", i), r.in(time.Second)))
			r.tenants.Add(brakeUntil(fmt.Sprint("wrong-", i), "wrong"))
		}
		defer r.start()()
		r.pass(10 * time.Second)
		r.cluster.Add(brakeUntil("", r.in(20*time.Second)))
		r.pass(12 * time.Second)
		synctest.Wait()
		if done := fmt.Sprint(r.released); !strings.Contains(done, " emergency-brake after 2") {
			t.Errorf("the cluster's brake is not released within 2 s: %v", r.released)
		}
		if n := len(r.patches); n > 5+22 {
			t.Errorf("%d patches in 22 s", n)
		}
		if n := r.logged("must be a time"); n > 20+22 {
			t.Errorf("%d log lines", n)
		}
		r.pass(100 * time.Second)
		if n := len(r.released); n != 101 {
			t.Errorf("%d are released in the end, want 101", n)
		}
	})
}
