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
}
