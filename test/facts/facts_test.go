package facts

import "testing"

// TestFacts shares one control plane: each fact has a namespace of its own.
func TestFacts(t *testing.T) {
	r := newRig(t)
	t.Run("F2 one rule sees both APIs once", r.oneRuleSeesBothAPIs)
	t.Run("F3 a client's patch is an UPDATE", r.patchIsAnUpdate)
	t.Run("F3 a conflict is admitted again", r.conflictIsAdmittedAgain)
	t.Run("F3 a patch of nothing asks nobody", r.patchOfNothing)
	t.Run("F3 but a put and an apply of nothing create", r.putOfNothing)
	t.Run("F4 mutating sees no uid", r.mutatingSeesNoUID)
	t.Run("F5 a denial reaches the client", r.denialReachesTheClient)
	t.Run("F6 calls are HTTP/2 and say their timeout", r.callsAreHTTP2)
	t.Run("F7 what makes a CREATE invalid", r.createValidation)
	t.Run("F7 what makes an UPDATE invalid", r.updateValidation)
	t.Run("F8 what a refusal costs etcd", r.refusalCosts)
	t.Run("F20 a generated name", r.generatedName)
}
