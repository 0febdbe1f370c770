package facts

import "testing"

// TestFacts checks the facts on one shared control plane. Each fact uses its own namespace.
func TestFacts(t *testing.T) { //nolint:tparallel // the subtests count calls and log lines of one API server
	t.Parallel() // TestWritesRenewTTL mostly waits
	r := newRig(t)
	t.Run("each phase reviews a CREATE once", r.createIsReviewedOnce)
	t.Run("a patch is an UPDATE", r.patchIsAnUpdate)
	t.Run("a conflict is reviewed again", r.conflictIsReviewedAgain)
	t.Run("a patch of a missing Event is not reviewed", r.patchOfMissingEvent)
	t.Run("a put and an apply of a missing Event create it", r.putOfMissingEvent)
	t.Run("validation of an UPDATE", r.updateValidation)
	t.Run("a generated name", r.generatedName)
	t.Run("invalid Events reach only the mutating phase", r.invalidEventsReachMutatingPhase)
	t.Run("an Event too large for etcd is tried twice", r.tooLargeEventIsRetriedOnce)
	t.Run("an admitted Event may not be stored", r.admittedEventMayNotBeStored)
	t.Run("a CREATE in a terminating namespace is not reviewed", r.terminatingNamespaceIsNotReviewed)
	t.Run("a patch can identify its Event", r.patchIdentifiesEvent)
	t.Run("a refused generated name is retried", r.refusedGeneratedNameIsRetried)
	t.Run("a refused patch or put is reviewed once", r.refusedUpdateIsOneCall)
	t.Run("a reverted UPDATE writes nothing", r.revertedUpdateWritesNothing)
	t.Run("the recorder of core/v1 adopts the count of an answer", r.recordersAdoptAnswers)
	t.Run("the recorder of events.k8s.io adopts the count of a refresh", r.refreshedSeriesAdoptAnswers)
	t.Run("Retry-After reaches the client", r.retryAfterReachesClient)
	t.Run("only the validating phase logs a refusal", r.refusalsAreLogged)
	t.Run("valid notices, and which ones kubectl describe shows", r.validNotices)
	t.Run("the count and time that kubectl shows", r.kubectlShowsSeriesCount)
	t.Run("a status patch ignores the uid, but can test it", r.statusPatchIgnoresUID)
}
