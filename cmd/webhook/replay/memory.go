package replay

import "runtime/debug"

const (
	// memoryLimit is where the garbage collector begins to work harder, in bytes: above what stores may take, so that it has
	// something to collect. More may be in use.
	memoryLimit = 136 << 20
	// bytesPerWrite is how many bytes more each write may take beyond a million, and a million writes are within memoryLimit.
	bytesPerWrite, writesWithin = 40, 1_000_000
	// gcPercent is by how many percent what is in use grows, within that limit, before garbage is collected.
	gcPercent = 200
)

// LimitMemory bounds memory for as many writes, until restore is called. It is for one command at a time, as it is a
// setting of the process.
func LimitMemory(writes int64) (restore func()) {
	limit := debug.SetMemoryLimit(memoryLimit + max(0, writes-writesWithin)*bytesPerWrite)
	percent := debug.SetGCPercent(gcPercent)
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}
