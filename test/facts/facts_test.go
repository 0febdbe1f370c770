package facts

import "testing"

// TestFacts shares one control plane: each fact has a namespace of its own.
func TestFacts(t *testing.T) { //nolint:tparallel // they count what the API server does
	t.Parallel() // TestWritesRenewTTL mostly waits
	r := newRig(t)
	t.Run("a CREATE by either API is asked about once in each phase", r.createIsReviewedOnce)
	t.Run("a client's patch is an UPDATE", r.patchIsAnUpdate)
	t.Run("a conflict is admitted again", r.conflictIsReviewedAgain)
	t.Run("a patch of nothing asks nobody", r.patchOfMissingEvent)
	t.Run("but a put and an apply of nothing create", r.putOfMissingEvent)
	t.Run("what makes an UPDATE invalid", r.updateValidation)
	t.Run("a generated name", r.generatedName)
	t.Run("mutating sees what is invalid, validating does not", r.invalidEventsReachMutatingPhase)
	t.Run("what is too large for etcd is tried twice", r.tooLargeEventIsRetriedOnce)
	t.Run("what is admitted may not be stored", r.admittedEventMayNotBeStored)
	t.Run("a terminating namespace asks nobody", r.terminatingNamespaceIsNotReviewed)
	t.Run("a patch says which Event it is for", r.patchIdentifiesEvent)
	t.Run("a generated name that is refused costs one call in either phase", r.refusedGeneratedNameIsRetried)
	t.Run("Retry-After reaches the client", r.retryAfterReachesClient)
	t.Run("only the validating phase logs a refusal", r.refusalsAreLogged)
	t.Run("what makes a notice valid and shown", r.validNotices)
	t.Run("which count and time kubectl shows", r.kubectlShowsSeriesCount)
	t.Run("a status patch can test the uid", r.statusPatchIgnoresUID)
}
