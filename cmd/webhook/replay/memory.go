package replay

import "runtime/debug"

const (
	// memoryLimit is the soft limit in bytes at which the garbage collector works harder. It is higher than what stores may use, so
	// that there is garbage to collect. More may be in use.
	memoryLimit = 136 << 20
	// bytesPerWrite is added to the limit for each write beyond writesWithin.
	bytesPerWrite, writesWithin = 40, 1_000_000
	// gcPercent is the growth of the heap, in percent, between two collections below the limit.
	gcPercent = 200
)

// LimitMemory sets the soft memory limit for a number of writes, until restore is called. It changes the whole process, so it is
// for one command at a time.
func LimitMemory(writes int64) (restore func()) {
	limit := debug.SetMemoryLimit(memoryLimit + max(0, writes-writesWithin)*bytesPerWrite)
	percent := debug.SetGCPercent(gcPercent)
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}
