package attacks

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// neighbourRounds is the number of the neighbour's rounds, and repeatsPerEvent how often it repeats an Event in each.
	neighbourRounds, repeatsPerEvent = 30, 3
	// quotaBurst is the burst of the neighbour's quota for Events of one reason. The quota changes in round quotaChangeRound, and then
	// has a new bucket with a burst of changedQuotaBurst.
	quotaBurst, changedQuotaBurst, quotaChangeRound = 5, 2, neighbourRounds / 2
	// eventsAfterwards is the number of Events that the tenant creates after the last round.
	eventsAfterwards = 100
	// roundsPerAdminTurn is the number of rounds between two turns of the administrator.
	roundsPerAdminTurn = 6
)

// neighbourRules returns a quota that limits the Events of one reason, and a policy that drops those of another.
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

// neighbourCounts has the numbers of Events that the neighbour's quota and policy have refused.
type neighbourCounts struct{ limited, silenced int64 }

// runNeighbour writes the neighbour's Events and checks the answers while the tenant runs. It returns the number of refused Events.
func (a *arena) runNeighbour(tenant *tenant) (counts neighbourCounts) {
	a.Helper()
	for round := range neighbourRounds {
		a.eventually("the tenant continues", func() bool { return tenant.started.Load() >= int64(round**steps/neighbourRounds) })
		pod := fmt.Sprint("pod-", round)
		for n := range repeatsPerEvent + 1 {
			a.checkWrite(pod, fmt.Sprint(pod, ".", n), "BackOff", n == 0)
		}
		admits := round < quotaBurst || round > quotaChangeRound && round <= quotaChangeRound+changedQuotaBurst
		a.checkWrite(fmt.Sprint("limited-", round), fmt.Sprint("limited.", round), "Limited", admits)
		if !admits {
			counts.limited++
		}
		a.checkWrite(pod, fmt.Sprint("silenced.", round), "Silenced", false)
		counts.silenced++
		if round == quotaChangeRound {
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
	a.eventually("the tenant continues", func() bool { return tenant.attempts[creates].Load() >= before+eventsAfterwards })
	return counts
}

// checkWrite writes an Event of the neighbour and checks whether it is stored.
func (a *arena) checkWrite(pod, name, reason string, stored bool) {
	a.Helper()
	if a.tryCreate(newEvent(neighbourNamespace, pod, name, reason)) != stored {
		a.checkWatchdog()
		a.Errorf("Event %s about %s: got stored: %t, want %t", reason, pod, !stored, stored)
	}
}

// tryCreate writes an Event and reports whether it was stored. The test fails if something other than eventquota refuses it.
func (a *arena) tryCreate(e *corev1.Event) bool {
	a.Helper()
	_, err := a.admin.CoreV1().Events(e.Namespace).Create(a.Context(), e, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) && apierrors.ReasonForError(err) != admission.ReasonDropped {
		a.must(err)
	}
	return err == nil
}

// get returns the text at a JSONPath of a policy or quota of the neighbour.
func (a *arena) get(rule, path string) string {
	a.Helper()
	text, _, err := a.cluster.Kubectl(a.Context(), "", "-n", neighbourNamespace, "get", rule, "-o", "jsonpath="+path)
	a.must(err)
	return text
}

// checkNeighbour checks the neighbour's Event counts, notices and statuses against the numbers of refused Events.
func (a *arena) checkNeighbour(counts neighbourCounts) {
	a.Helper()
	for round := range neighbourRounds {
		name := fmt.Sprint("pod-", round, ".0")
		a.eventually("the count of Event "+name+" is complete", func() bool {
			e, err := a.admin.CoreV1().Events(neighbourNamespace).Get(a.Context(), name, metav1.GetOptions{})
			a.must(err)
			return e.Count == repeatsPerEvent+1
		})
	}
	var reported map[string]int64
	a.eventually("notices report all refused Events", func() bool {
		reported = a.reportedByReason()
		return reported["Limited"] >= counts.limited && reported["Silenced"] >= counts.silenced
	})
	if reported["Limited"] != counts.limited || reported["Silenced"] != counts.silenced {
		a.Errorf("notices report refused Events %v, want %+v", reported, counts)
	}
	var dropped string
	const sinceChange = neighbourRounds - 1 - quotaChangeRound - changedQuotaBurst // the status counts from the last change of the quota
	a.eventually("the statuses count all refused Events", func() bool {
		dropped = a.get("evq/own", "{.status.total.dropped}") + " " + a.get("evp/own", "{.status.total.dropped}")
		quotas, policies, _ := strings.Cut(dropped, " ")
		return atLeast(quotas, sinceChange) && atLeast(policies, counts.silenced)
	})
	if want := fmt.Sprint(sinceChange, " ", counts.silenced); dropped != want {
		a.Errorf("the statuses of the quota and the policy count %q dropped Events, want %q", dropped, want)
	}
}

// atLeast reports whether text is a decimal number that is at least n.
func atLeast(text string, n int64) bool {
	value, err := strconv.ParseInt(text, 10, 64)
	return err == nil && value >= n
}

// reportedByReason returns the numbers of refused Events in the neighbour's notices, by reason.
func (a *arena) reportedByReason() map[string]int64 {
	a.Helper()
	list, err := a.admin.CoreV1().Events(neighbourNamespace).List(a.Context(), metav1.ListOptions{})
	a.must(err)
	all := map[string]int64{}
	for i := range list.Items {
		if !settler.IsNotice(&list.Items[i]) {
			continue
		}
		var dropped struct{ Reasons map[string]int64 }
		a.must(json.Unmarshal([]byte(list.Items[i].Annotations[settler.AnnotationDropped]), &dropped))
		for reason, n := range dropped.Reasons {
			all[reason] += n
		}
	}
	return all
}
