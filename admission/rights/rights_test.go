package rights_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/rights"
	"github.com/eventquota/eventquota/policy"
)

// apiServer answers access reviews by "user namespace group", with an empty namespace for all.
type apiServer struct {
	mu      sync.Mutex
	allows  []string
	fails   bool
	asked   []string
	reviews []authorizationv1.SubjectAccessReviewSpec
}

func (a *apiServer) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails {
		return nil, errors.New("unavailable")
	}
	of := r.Spec.ResourceAttributes
	question := fmt.Sprintf("%s %s %s", r.Spec.User, of.Namespace, of.Group)
	a.asked, a.reviews = append(a.asked, question), append(a.reviews, r.Spec)
	r.Status.Allowed = slices.Contains(a.allows, question)
	return r, nil
}

func (a *apiServer) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// run starts a Cache, which stops when the test ends.
func run(t *testing.T, a *apiServer) *rights.Cache {
	t.Helper()
	c := rights.New(a, time.Now)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return c
}

func named(name string, groups ...string) *policy.UserInfo {
	return &policy.UserInfo{Username: name, Groups: groups}
}

func TestAnswersAreCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &apiServer{allows: []string{"node  ", "app shop ", "series  events.k8s.io"}}
		c := run(t, a)
		for _, tt := range []struct {
			user             *policy.UserInfo
			namespace, group string
			want             bool
			asks             []string
		}{
			{named("node"), "shop", "", true, []string{"node  "}},
			{named("node"), "other", "", true, nil},
			{named("app"), "shop", "", true, []string{"app  ", "app shop "}},
			{named("app"), "other", "", false, []string{"app  ", "app other "}},
			{named("series"), "shop", "", false, []string{"series  ", "series shop "}},
			{named("series"), "shop", "events.k8s.io", true, []string{"series  events.k8s.io"}},
			{named("app", "a group"), "shop", "", true, []string{"app  ", "app shop "}},
		} {
			if c.MayPatchEvents(tt.namespace, tt.group, tt.user) && tt.asks != nil {
				t.Errorf("%+v: known before the review", tt)
			}
			synctest.Wait()
			<-time.After(time.Second) // for the rate of reviews
			synctest.Wait()
			for range 3 {
				if got := c.MayPatchEvents(tt.namespace, tt.group, tt.user); got != tt.want {
					t.Errorf("%+v: %v", tt, got)
				}
			}
			synctest.Wait()
			if asked := a.take(); !slices.Equal(asked, tt.asks) {
				t.Errorf("%+v: asked %q", tt, asked)
			}
		}
	})
}

func TestReviewHasTheWholeUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &apiServer{}
		c := run(t, a)
		u := &policy.UserInfo{Username: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"scopes": {"a", "b"}}}
		c.MayPatchEvents("shop", "", u)
		synctest.Wait()
		<-time.After(time.Second)
		synctest.Wait()
		if len(a.reviews) != 2 {
			t.Fatalf("%d reviews, want 2", len(a.reviews))
		}
		got := a.reviews[1]
		if got.User != "u" || got.UID != "1" || !slices.Equal(got.Groups, u.Groups) || !slices.Equal(got.Extra["scopes"], u.Extra["scopes"]) ||
			*got.ResourceAttributes != (authorizationv1.ResourceAttributes{Namespace: "shop", Verb: "patch", Version: "v1", Resource: "events"}) {
			t.Errorf("review %+v of %+v", got, got.ResourceAttributes)
		}
	})
}

// TestAnswersExpire checks that a right that was lost is not believed for longer than TTL, and that a failed review is repeated.
func TestAnswersExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &apiServer{allows: []string{"node  "}}
		c := run(t, a)
		known := func() bool {
			c.MayPatchEvents("shop", "", named("node"))
			synctest.Wait()
			<-time.After(time.Second)
			synctest.Wait()
			return c.MayPatchEvents("shop", "", named("node"))
		}
		if !known() {
			t.Fatal("the right is not known")
		}
		a.allows = nil
		<-time.After(rights.TTL - 2*time.Second)
		if !known() {
			t.Error("the answer is forgotten too early")
		}
		<-time.After(2 * time.Second)
		if known() {
			t.Error("the right is believed for longer than TTL")
		}
		a.fails, a.allows = true, []string{"node  "}
		<-time.After(rights.TTL + time.Second)
		if known() {
			t.Error("a failed review allows")
		}
		a.fails = false
		if !known() {
			t.Error("a failed review is not repeated")
		}
	})
}

// TestNamespacesTakeTurns has a namespace with any number of users, and checks that another one's user waits for one review of it at most.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &apiServer{}
		c := rights.New(a, time.Now)
		for i := range 5000 {
			c.MayPatchEvents("noisy", "", named(fmt.Sprint("noisy-", i)))
		}
		c.MayPatchEvents("quiet", "", named("quiet"))
		c.MayPatchEvents("large", "", named(strings.Repeat("x", 9<<10)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		synctest.Wait()
		<-time.After(time.Minute)
		synctest.Wait()
		stop()
		<-ended
		if asked, want := a.take(), []string{"noisy-0  ", "noisy-0 noisy ", "quiet  ", "quiet quiet "}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	})
}
