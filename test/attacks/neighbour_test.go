package attacks

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// neighbourRounds are those of the neighbour, and repeats how often each of its Events comes again.
	neighbourRounds, repeatsPerEvent = 30, 3
	// quotaBurst is how many of the Events of one reason its quota lets through, and relimited how many more once it is changed after
	// the round of that number.
	quotaBurst, changedQuotaBurst, quotaChangeRound = 5, 2, neighbourRounds / 2
	// eventsAfterwards is how many Events the tenant writes once it has done all else.
	eventsAfterwards = 100
	// roundsPerAdminTurn is the number of rounds from one to the next in which the admin acts.
	roundsPerAdminTurn = 6
)

// neighbourRules limit the Events of one reason, and drop those of another.
func neighbourRules(burst int) string {
	return fmt.Sprintf(`
apiVersion: eventquota.io/v1alpha1
kind: EventQuota
metadata: {name: own, namespace: %[1]s}
spec:
  match: {reasons: [Limited]}
  limits: [{name: own, burst: %[2]d, tokens: 1, interval: 1h, warningReservePercent: 0}]
---
apiVersion: eventquota.io/v1alpha1
kind: EventPolicy
metadata: {name: own, namespace: %[1]s}
spec:
  match: {reasons: [Silenced]}
  action: Drop
`, neighbourNamespace, burst)
}

// neighbourCounts is what a namespace has had refused by its quota and its policy.
type neighbourCounts struct{ limited, silenced int64 }

// runNeighbour writes Events while the tenant does what it does.
func (a *arena) runNeighbour(tenant *tenant) (n neighbourCounts) {
	a.Helper()
	for round := range neighbourRounds {
		a.eventually("the tenant goes on", func() bool { return tenant.next.Load() >= int64(round**steps/neighbourRounds) })
		pod := fmt.Sprint("pod-", round)
		for n := range repeatsPerEvent + 1 {
			a.checkWrite(pod, fmt.Sprint(pod, ".", n), "BackOff", n == 0)
		}
		admits := round < quotaBurst || round > quotaChangeRound && round <= quotaChangeRound+changedQuotaBurst
		a.checkWrite(fmt.Sprint("limited-", round), fmt.Sprint("limited.", round), "Limited", admits)
		if !admits {
			n.limited++
		}
		a.checkWrite(pod, fmt.Sprint("silenced.", round), "Silenced", false)
		n.silenced++
		if round == quotaChangeRound { // while the tenant goes on
			a.apply(neighbourRules(changedQuotaBurst))
			a.waitForReady(a.rules.Resource(v1alpha1.Resources()[v1alpha1.KindEventQuota]).Namespace(neighbourNamespace), "own")
		}
		if round%roundsPerAdminTurn == roundsPerAdminTurn-1 {
			a.runAdmin(round)
		}
		a.checkQuota(tenant)
		if a.redis != nil {
			a.readCalls()
		}
	}
	before := tenant.attempts[creates].Load()
	a.eventually("the tenant goes on", func() bool { return tenant.attempts[creates].Load() >= before+eventsAfterwards })
	return n
}

// checkWrite holds that a write of the neighbour is stored, or refused.
func (a *arena) checkWrite(pod, name, reason string, stored bool) {
	a.Helper()
	if a.tryCreate(newEvent(neighbourNamespace, pod, name, reason)) != stored {
		a.checkWatchdog()
		a.Errorf("%s of %s: want it stored: %t", reason, pod, stored)
	}
}

// tryCreate writes an Event of the neighbour, and reports whether it was stored. Nothing else refuses it but a quota or a policy.
func (a *arena) tryCreate(e *corev1.Event) bool {
	a.Helper()
	_, err := a.admin.CoreV1().Events(e.Namespace).Create(a.Context(), e, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) && !apierrors.IsTooManyRequests(err) {
		a.must(err)
	}
	return err == nil
}

// get reads of a rule of the neighbour.
func (a *arena) get(rule, path string) string {
	a.Helper()
	said, _, err := a.cluster.Kubectl(a.Context(), "", "-n", neighbourNamespace, "get", rule, "-o", "jsonpath="+path)
	a.must(err)
	return said
}

// checkNeighbour holds the neighbour's counts, notices and statuses.
func (a *arena) checkNeighbour(n neighbourCounts) {
	a.Helper()
	for round := range neighbourRounds {
		name := fmt.Sprint("pod-", round, ".0")
		a.eventually("the count of "+name, func() bool {
			e, err := a.admin.CoreV1().Events(neighbourNamespace).Get(a.Context(), name, metav1.GetOptions{})
			a.must(err)
			return e.Count == repeatsPerEvent+1
		})
	}
	var reported map[string]int64
	a.eventually("notices report what was refused", func() bool {
		reported = a.reportedByReason()
		return reported["Limited"] >= n.limited && reported["Silenced"] >= n.silenced
	})
	if reported["Limited"] != n.limited || reported["Silenced"] != n.silenced {
		a.Errorf("notices report %v, want %+v", reported, n)
	}
	var dropped string
	const sinceChange = neighbourRounds - 1 - quotaChangeRound - changedQuotaBurst // the status of a rule counts from its last change
	a.eventually("the statuses have what was refused", func() bool {
		dropped = a.get("evq/own", "{.status.total.dropped}") + " " + a.get("evp/own", "{.status.total.dropped}")
		quotas, policies, _ := strings.Cut(dropped, " ")
		return atLeast(quotas, sinceChange) && atLeast(policies, n.silenced)
	})
	if want := fmt.Sprint(sinceChange, " ", n.silenced); dropped != want {
		a.Errorf("the statuses say that %q were dropped, want %q", dropped, want)
	}
}

func atLeast(number string, n int64) bool {
	is, err := strconv.ParseInt(number, 10, 64)
	return err == nil && is >= n
}

// reportedByReason is how many Events the neighbour's notices say were refused, by reason.
func (a *arena) reportedByReason() map[string]int64 {
	a.Helper()
	list, err := a.admin.CoreV1().Events(neighbourNamespace).List(a.Context(), metav1.ListOptions{})
	a.must(err)
	all := map[string]int64{}
	for i := range list.Items {
		if !settler.IsNotice(&list.Items[i]) {
			continue
		}
		var says struct{ Reasons map[string]int64 }
		a.must(json.Unmarshal([]byte(list.Items[i].Annotations[settler.AnnotationDropped]), &says))
		for reason, n := range says.Reasons {
			all[reason] += n
		}
	}
	return all
}
