package main

import (
	"testing"

	"github.com/eventquota/eventquota/test/cluster"
)

// TestWrittenCountsSuccessesOnly checks that refused requests and patches of missing Events do not count.
func TestWrittenCountsSuccessesOnly(t *testing.T) {
	got := writtenTo(&cluster.Audit{Requests: map[cluster.Request]int64{
		{Verb: "create", Code: 201, User: "a"}: 5,
		{Verb: "create", Code: 201, User: "b"}: 2,
		{Verb: "patch", Code: 200}:             3,
		{Verb: "update", Code: 200}:            1,
		{Verb: "create", Code: 400}:            100,
		{Verb: "create", Code: 409}:            100,
		{Verb: "patch", Code: 404}:             100,
	}})
	if got.stored != 7 || got.writes != 11 {
		t.Errorf("got %d stored and %d writes, want 7 and 11", got.stored, got.writes)
	}
}
