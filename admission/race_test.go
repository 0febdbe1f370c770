//go:build race

package admission_test

// raceAllocs is how many allocations more a review may cost under the race detector, which
// makes a sync.Pool forget at random.
const raceAllocs = 40
