package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that no goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func someLimits() store.Limits {
	return store.Limits{
		Merge: true, SimilarThreshold: 10, Window: 10 * time.Minute, IdenticalWindow: time.Hour,
		WriteInterval: 10 * time.Second, MaxWriteInterval: 5 * time.Minute, KeepMessages: 5, ReservePerReason: 0,
		SpamFilter: store.Bucket{
			Limit: store.Limit{Burst: 25, Every: 5 * time.Minute}, Key: store.KeyOf("spam"), Name: "spam filter",
			NoticeObject: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "pod", UID: "pod-uid"},
		},
	}
}

func someWrite(name string, now time.Time) store.Write {
	return store.Write{
		GroupKey: store.KeyOf("group"), ObjectKey: store.KeyOf("object"),
		ExactKey: store.KeyOf("exact"), SimilarKey: store.KeyOf("similar"), MessageKey: store.KeyOf("message"),
		Namespace: "default", Name: name, Count: 1, FirstSeen: now, LastSeen: now, Text: "message", Reason: "Failed",
		InvolvedObject: store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "pod", UID: "pod-uid"},
		Source:         store.Source{Component: "kubelet", Host: "node"},
	}
}

func longText(n int) string { return strings.Repeat("0123456789abcdef", n/16) }
