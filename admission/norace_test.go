//go:build !race

package admission_test

const raceAllocs = 0
