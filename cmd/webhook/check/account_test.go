package check

import (
	"slices"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func username(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}
}

func group(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}}
}

func serviceAccount(namespace, name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{
		Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: namespace, Name: name},
	}
}

// rule returns a rule for one namespace, or for all if namespace is "*".
func rule(group, resource, verb, namespace string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{
		APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}, Namespaces: []string{namespace}, ClusterScope: true,
	}
}

func eventWrites() flowcontrolv1.ResourcePolicyRule { return rule("", "events", "create", "*") }

func allRequests() flowcontrolv1.ResourcePolicyRule { return rule("*", "*", "*", "*") }

func flowSchema(name string, precedence int32, level string, rule flowcontrolv1.ResourcePolicyRule, subjects ...flowcontrolv1.Subject) flowcontrolv1.FlowSchema {
	return flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level},
			MatchingPrecedence:         precedence,
			Rules:                      []flowcontrolv1.PolicyRulesWithSubjects{{Subjects: subjects, ResourceRules: []flowcontrolv1.ResourcePolicyRule{rule}}},
		},
	}
}

func TestFlowSchemaSubjectsSelectClasses(t *testing.T) {
	all := []accountClass{node, controlPlane, otherAccount, settler}
	for name, test := range map[string]struct {
		subject flowcontrolv1.Subject
		want    []accountClass
	}{
		"all users":                           {username("*"), all},
		"all groups":                          {group("*"), all},
		"all authenticated users":             {group("system:authenticated"), all},
		"nodes":                               {group("system:nodes"), []accountClass{node}},
		"a node":                              {username("system:node:a"), []accountClass{node}},
		"the controller manager":              {username("system:kube-controller-manager"), []accountClass{controlPlane}},
		"the scheduler":                       {username("system:kube-scheduler"), []accountClass{controlPlane}},
		"a controller by its user":            {username("system:serviceaccount:kube-system:a"), []accountClass{controlPlane}},
		"a controller":                        {serviceAccount("kube-system", "a"), []accountClass{controlPlane}},
		"all controllers":                     {serviceAccount("kube-system", "*"), []accountClass{controlPlane}},
		"the group of controllers":            {group("system:serviceaccounts:kube-system"), []accountClass{controlPlane}},
		"all service accounts":                {group("system:serviceaccounts"), []accountClass{controlPlane, otherAccount, settler}},
		"a service account":                   {serviceAccount("a", "a"), []accountClass{otherAccount}},
		"all service accounts of a namespace": {serviceAccount("a", "*"), []accountClass{otherAccount}},
		"the group of service accounts of a namespace": {group("system:serviceaccounts:a"), []accountClass{otherAccount}},
		"eventquota":                                     {serviceAccount("quota", "eq"), []accountClass{settler}},
		"the user of eventquota":                         {username("system:serviceaccount:quota:eq"), []accountClass{settler}},
		"all service accounts of its namespace":          {serviceAccount("quota", "*"), []accountClass{otherAccount, settler}},
		"the group of service accounts of its namespace": {group("system:serviceaccounts:quota"), []accountClass{otherAccount, settler}},
		"a user":                     {username("jane"), []accountClass{otherAccount}},
		"a group":                    {group("developers"), []accountClass{otherAccount}},
		"an exempt group":            {group("system:masters"), nil},
		"all unauthenticated users":  {group("system:unauthenticated"), nil},
		"the anonymous user":         {username("system:anonymous"), nil},
		"an unknown kind of subject": {flowcontrolv1.Subject{Kind: "New"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			schema := flowSchema("a", 1, "a", allRequests(), test.subject)
			if got := (accounts{namespace: "quota", name: "eq"}).matchedClasses(&schema); !slices.Equal(got, test.want) {
				t.Errorf("the FlowSchema matches Event writes of %v, want %v", got, test.want)
			}
		})
	}
}

func TestFlowSchemaRulesSelectEventWrites(t *testing.T) {
	for name, test := range map[string]struct {
		rule flowcontrolv1.ResourcePolicyRule
		want bool
	}{
		"everything":                  {allRequests(), true},
		"creates":                     {rule("", "events", "create", "*"), true},
		"updates":                     {rule("*", "events", "update", "*"), true},
		"patches in a namespace":      {rule("events.k8s.io", "*", "patch", "a"), true},
		"reads":                       {rule("", "events", "list", "*"), false},
		"pods":                        {rule("", "pods", "create", "*"), false},
		"another group":               {rule("apps", "events", "create", "*"), false},
		"cluster-scoped objects only": {flowcontrolv1.ResourcePolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}, ClusterScope: true}, false},
		"no resources":                {flowcontrolv1.ResourcePolicyRule{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			schema := flowSchema("a", 1, "a", test.rule, username("jane"))
			if got := len((accounts{}).matchedClasses(&schema)) > 0; got != test.want {
				t.Errorf("the FlowSchema matches Event writes: %t, want %t", got, test.want)
			}
		})
	}
}

// TestOrdinaryAccountIsOutsideKubeSystem checks that the other account is never one of kube-system, which belong to the control plane.
func TestOrdinaryAccountIsOutsideKubeSystem(t *testing.T) {
	for namespace, want := range map[string]string{
		"shop": "system:serviceaccount:shop:eventquota-check", "kube-system": "system:serviceaccount:default:eventquota-check",
	} {
		if got := newAccounts(nil, namespace).impersonation(otherAccount).UserName; got != want {
			t.Errorf("with --namespace=%s check impersonates %s, want %s", namespace, got, want)
		}
	}
}
