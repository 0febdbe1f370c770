package facts

import "testing"

// TestFacts shares one control plane: each fact has a namespace of its own.
func TestFacts(t *testing.T) {
	r := newRig(t)
	t.Run("one rule sees both APIs once", r.oneRuleSeesBothAPIs)
	t.Run("a client's patch is an UPDATE", r.patchIsAnUpdate)
	t.Run("a conflict is admitted again", r.conflictIsAdmittedAgain)
	t.Run("a patch of nothing asks nobody", r.patchOfNothing)
	t.Run("but a put and an apply of nothing create", r.putOfNothing)
	t.Run("mutating sees no uid", r.mutatingSeesNoUID)
	t.Run("a denial reaches the client", r.denialReachesTheClient)
	t.Run("calls are HTTP/2 and say their timeout", r.callsAreHTTP2)
	t.Run("what makes a CREATE invalid", r.createValidation)
	t.Run("what makes an UPDATE invalid", r.updateValidation)
	t.Run("what a refusal costs etcd", r.refusalCosts)
	t.Run("a generated name", r.generatedName)
	t.Run("a deletecollection is a DELETE of each", r.deleteCollectionIsADelete)
	t.Run("mutating sees what is invalid, validating does not", r.mutatingSeesInvalidEvents)
	t.Run("what is too large for etcd is tried twice", r.tooLargeIsTriedTwice)
	t.Run("what is admitted may not be stored", r.admittedIsNotStored)
	t.Run("a ResourceQuota ignores Events", r.resourceQuotasIgnoreEvents)
	t.Run("a terminating namespace asks nobody", r.terminatingAsksNobody)
	t.Run("an expression without has() skips the webhook", r.expressionsNeedHas)
	t.Run("an expression without has() fails alone in a policy", r.policyExpressions)
	t.Run("a patch says which Event it is for", r.patchSaysWhichEvent)
	t.Run("kubectl shows the count of the series", r.kubectlShowsTheSeries)
	t.Run("a generated name that is refused costs one call in either phase", r.refusedGeneratedName)
	t.Run("only the validating phase logs a refusal", r.refusalsInTheLog)
	t.Run("what makes a notice valid and shown", r.notices)
	t.Run("without a last time nobody knows when", r.lastSeen)
	t.Run("a status patch can test the uid", r.statusPatchesAndTheUID)
}
