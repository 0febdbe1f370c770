package main

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine is left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
